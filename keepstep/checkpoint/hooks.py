"""Hooks that have to be called: an outbox, filled by the statements that end or hold a case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import hooks as sql

SOON = 5.0
"""Seconds until a hook is due again that could not be called at all."""


@dataclass(frozen=True, kw_only=True)
class DueHook:
    """A message to send."""

    id: int
    event: str
    workflow: str
    thread_id: str


@dataclass(frozen=True, kw_only=True)
class PendingHook:
    """A hook to call.

    seq: of the case when it happened. key: the root of its idempotency keys. reason: why it happened. wait: what it
    reminds of. attempt: 1 on the first try.
    """

    id: int
    case: UUID
    key: UUID
    workflow: str
    thread_id: str
    event: str
    seq: int
    reason: dict[str, Any]
    wait: str | None
    attempt: int


def due(db: Database, workflows: Sequence[str], limit: int) -> list[DueHook]:
    """The hooks that are due; each is due again later, unless it is done by then."""
    rows = db.all(sql.DUE, {"workflows": list(workflows), "limit": limit})
    return [DueHook(id=r.id, event=r.event, workflow=r.workflow, thread_id=r.thread_id) for r in rows]


def find(db: Database, hook: int) -> PendingHook | None:
    """The hook, unless it is done."""
    row = db.one(sql.ONE, {"id": hook})
    if row is None:
        return None
    return PendingHook(
        id=row.id,
        case=row.case_id,
        key=row.key,
        workflow=row.workflow,
        thread_id=row.thread_id,
        event=row.event,
        seq=row.seq,
        reason=codec.decode(row.detail) if row.detail else {},
        wait=row.name,
        attempt=row.attempts,
    )


def done(db: Database, hook: int) -> None:
    """It was called."""
    db.run(sql.DONE, {"id": hook})


def failed(db: Database, hook: int, error: dict[str, Any]) -> None:
    """It raised; it is due again later."""
    db.run(sql.FAILED, {"id": hook, "error": codec.encode(error)})


def put_back(db: Database, hooks: Sequence[int]) -> None:
    """They could not be called at all: the broker is away, or this worker doesn't know their workflow."""
    db.run(sql.PUT_BACK, {"ids": list(hooks), "seconds": SOON})
