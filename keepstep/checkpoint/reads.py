"""A case as people and callers see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.chain import assemble
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.sql import reads
from keepstep.steps.moves import TERMINAL, Status


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case as it stands. step: the next one, None when it has ended. reason: why it is held or backs off.

    state: JSON by field name; empty in lists, which don't load it. since: when it reached this step, or ended.
    """

    id: UUID
    workflow: str
    thread_id: str
    run: UUID
    status: Status
    paused: bool
    step: str | None
    seq: int
    queue: str | None
    attempt: int | None
    failures: int | None
    crashes: int | None
    reason: dict[str, Any] | None
    error: dict[str, Any] | None
    created_at: datetime
    finished_at: datetime | None
    since: datetime | None
    due_at: datetime | None
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it has completed, failed or been cancelled."""
        return self.status in TERMINAL


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of a case's history: a checkpoint, an attempt that came to nothing, or a signal."""

    at: datetime
    kind: str
    seq: int | None
    step: str
    detail: dict[str, Any]


def get(db: Database, case: UUID) -> Case | None:
    """The case with its state at the latest checkpoint."""
    row = db.one(reads.CASE, {"id": case})
    if row is None:
        return None
    return _case(row, state_at(db, case, row.seq))


def find(db: Database, case: UUID) -> Case | None:
    """The case without its state."""
    row = db.one(reads.CASE, {"id": case})
    return None if row is None else _case(row, {})


def state_at(db: Database, case: UUID, seq: int) -> dict[str, Any]:
    """The state as checkpoint `seq` left it; CheckpointDamaged if it can't be put together."""
    row = db.one(reads.CHAIN, {"id": case, "seq": seq})
    return assemble(codec.decode(row.chain) if row is not None and row.chain else [], seq)


def select(
    db: Database,
    *,
    workflow: str | None = None,
    status: str | None = None,
    step: str | None = None,
    before: datetime | None = None,
    limit: int = 50,
) -> list[Case]:
    """The newest cases that match, without their states. before: the last `created_at` of the page before."""
    params = {"workflow": workflow, "status": status, "step": step, "before": before, "limit": limit}
    return [_case(row, {}) for row in db.all(reads.LIST, params)]


def counts(db: Database, workflow: str | None = None) -> dict[str, int]:
    """How many cases there are by status."""
    return {row.status: row.cases for row in db.all(reads.COUNTS, {"workflow": workflow})}


def history(db: Database, case: UUID) -> list[Event]:
    """All that happened to a case, in order of time."""
    checkpoints = [
        Event(
            at=row.at,
            kind=row.kind,
            seq=row.seq,
            step=row.step,
            detail={
                "status": row.status,
                "target": row.target,
                "attempt": row.attempt,
                "node": row.node and str(row.node),
                "started_at": row.started_at,
                "bytes": row.bytes,
                "snapshot": row.is_snapshot,
                "schema_version": row.schema_version,
            },
        )
        for row in db.all(reads.HISTORY, {"id": case})
    ]
    attempts = [
        Event(
            at=row.at,
            kind=row.outcome,
            seq=row.seq,
            step=row.step,
            detail={
                "attempt": row.attempt,
                "node": row.node and str(row.node),
                "error": codec.decode(row.error) if row.error else None,
            },
        )
        for row in db.all(reads.ATTEMPTS, {"id": case})
    ]
    sent = [
        Event(
            at=row.sent_at,
            kind="sent",
            seq=row.consumed_seq,
            step=row.name,
            detail={"payload": codec.decode(row.payload), "actor": row.actor, "refused": row.refused},
        )
        for row in db.all(reads.SIGNALS, {"id": case})
    ]
    return sorted([*checkpoints, *attempts, *sent], key=lambda event: event.at)


def open_waits(db: Database, case: UUID) -> list[dict[str, Any]]:
    """What the case waits for: name, prompt, the payload's JSON Schema, deadline."""
    return [
        {
            "name": row.name,
            "prompt": codec.decode(row.prompt) if row.prompt else None,
            "schema": codec.decode(row.payload_schema) if row.payload_schema else None,
            "deadline": row.deadline,
            "opened_at": row.opened_at,
        }
        for row in db.all(reads.OPEN_WAITS, {"id": case})
    ]


def _case(row: Row, state: dict[str, Any]) -> Case:
    return Case(
        id=row.id,
        workflow=row.workflow,
        thread_id=row.thread_id,
        run=row.run,
        status=Status(row.status),
        paused=row.paused,
        step=row.step,
        seq=row.seq,
        queue=row.queue,
        attempt=row.attempt,
        failures=row.failures,
        crashes=row.crashes,
        reason=codec.decode(row.reason) if row.reason else None,
        error=codec.decode(row.error) if row.error else None,
        created_at=row.created_at,
        finished_at=row.finished_at,
        since=row.since,
        due_at=row.due_at,
        state=state,
    )
