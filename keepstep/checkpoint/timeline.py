"""A stretch of a case's past: what happened when, and for how long. Bounded, however long the case is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.sql import timeline as sql

STEPS = 100
"""Checkpoints of one stretch."""
ROWS = 300
"""Attempts, waits, signals and acts of one stretch, of each."""
PATH = 2000
"""The latest checkpoints, from which the way through the workflow is drawn."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A checkpoint. started_at: when its attempt was claimed; None if no step wrote it. host: of the node, if it lives.

    back_to: of a rewind, the seq it went back to.
    """

    seq: int
    kind: str
    step: str
    status: str
    target: str | None
    attempt: int
    host: str | None
    is_snapshot: bool
    started_at: datetime | None
    at: datetime
    back_to: int | None
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Tried:
    """An attempt that came to nothing, of the step behind checkpoint `seq`. started_at: None if nobody knows."""

    seq: int
    step: str
    attempt: int
    outcome: str
    error: dict[str, Any] | None
    started_at: datetime | None
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Waited:
    """A wait that checkpoint `seq` opened. closed_at, fate: None while it is open."""

    seq: int
    name: str
    opened_at: datetime
    closed_at: datetime | None
    fate: str | None
    deadline: datetime | None


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A signal. consumed_seq: the checkpoint that took it. refused: why none ever will."""

    name: str
    payload: Any
    actor: str | None
    sent_at: datetime
    consumed_seq: int | None
    refused: str | None
    stream: bool


@dataclass(frozen=True, kw_only=True)
class Act:
    """What an operator did."""

    verb: str
    actor: str | None
    reason: str | None
    detail: dict[str, Any]
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """entries: ascending. earlier: the seq to ask for what came before; None if this is the beginning."""

    entries: Sequence[Entry]
    tried: Sequence[Tried]
    waited: Sequence[Waited]
    earlier: int | None


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A checkpoint's place in the workflow: the step (or signal) that wrote it, and the step that comes next."""

    seq: int
    kind: str
    step: str
    target: str | None
    status: str


@dataclass(frozen=True, kw_only=True)
class Now:
    """The database's clock; since when a live case is at its step, and since when an attempt of it runs."""

    now: datetime
    entered_at: datetime | None
    claimed_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A parent, or a child, of a case."""

    id: UUID
    workflow: str
    thread_id: str
    status: str
    step: str | None


def stretch(db: Database, case: UUID, *, before: int | None = None, limit: int = STEPS) -> Stretch:
    """The checkpoints before seq `before` (None: the latest ones), with what was tried and waited for among them."""
    rows = db.all(sql.CHECKPOINTS, {"id": case, "before": before, "limit": limit + 1})
    entries = [Entry(**row._mapping) for row in rows[:limit]][::-1]
    since = entries[0].seq if entries else 0
    among = {"id": case, "since": since, "before": before, "limit": ROWS}
    return Stretch(
        entries=entries,
        tried=[Tried(**_decoded(row, "error")) for row in db.all(sql.ATTEMPTS, among)][::-1],
        waited=[Waited(**row._mapping) for row in db.all(sql.WAITS, among)][::-1],
        earlier=since if len(rows) > limit else None,
    )


def signals(db: Database, case: UUID) -> list[Sent]:
    """The latest signals, the newest first."""
    return [Sent(**_decoded(row, "payload")) for row in db.all(sql.SIGNALS, {"id": case, "limit": ROWS})]


def acts(db: Database, case: UUID) -> list[Act]:
    """The latest acts of operators, the newest first."""
    rows = db.all(sql.ACTS, {"id": case, "limit": ROWS})
    return [Act(**{**row._mapping, "detail": codec.decode(row.detail) if row.detail else {}}) for row in rows]


def path(db: Database, case: UUID) -> list[Passage]:
    """The way the case took through its workflow, from the beginning if it isn't too long."""
    return [Passage(**row._mapping) for row in db.all(sql.PATH, {"id": case, "limit": PATH})][::-1]


def now(db: Database, case: UUID) -> Now:
    """The instant of a look at the case."""
    return Now(**db.all(sql.NOW, {"id": case})[0]._mapping)


def version(db: Database, case: UUID) -> str | None:
    """A text that changes whenever the case does; None: there is no such case."""
    row = db.one(sql.VERSION, {"id": case})
    return None if row is None else hashlib.sha256(repr(tuple(row)).encode()).hexdigest()[:16]


def parent(db: Database, case: UUID) -> Relative | None:
    """The case that started this one."""
    row = db.one(sql.PARENT, {"id": case})
    return None if row is None else Relative(**row._mapping)


def children(db: Database, case: UUID) -> list[Relative]:
    """The cases that are below this one and no branches of it, the first of them."""
    return [Relative(**row._mapping) for row in db.all(sql.CHILDREN, {"id": case, "limit": ROWS})]


def _decoded(row: Row, column: str) -> dict[str, Any]:
    found = row._mapping[column]
    return {**row._mapping, column: None if found is None else codec.decode(found)}
