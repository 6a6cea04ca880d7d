"""A case as people and callers see it."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import fetching, state_of
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.delta import Operation
from keepstep.checkpoint.fan_reads import fans
from keepstep.checkpoint.filters import Filter, check_limit, check_text, containing, literal
from keepstep.checkpoint.logs import diff
from keepstep.checkpoint.ring import Ring, rings
from keepstep.checkpoint.sql import reads, steering
from keepstep.checkpoint.why_branches import told
from keepstep.steps.chunks import expanded
from keepstep.steps.errors import BadCursor
from keepstep.steps.moves import TERMINAL, Status


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case as it stands. step: the next one, None when it has ended. reason: why it is held or backs off.

    state: JSON by field name; empty in lists, which don't load it. since: when it reached this step, or ended. parent:
    the case that it is a branch of, as (workflow, thread id).
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
    priority: int | None = None
    parent: tuple[str, ...] | None = None
    tags: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it has completed, failed or been cancelled."""
        return self.status in TERMINAL


class Page(list[Case]):
    """Cases, the newest first. cursor: what to ask the next page with; None if there is none."""

    cursor: str | None = None


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line of a case's history: a checkpoint, an attempt that came to nothing, a signal, an operator's verb.

    Or a fan-out, with what became of its branches by now.
    """

    at: datetime
    kind: str
    seq: int | None
    step: str
    detail: dict[str, Any]


def get(db: Database, case: UUID, *, last: int | None = None) -> Case | None:
    """The case with its state at the latest checkpoint. last: see `state_at`."""
    row = db.one(reads.CASE, {"id": case})
    if row is None:
        return None
    return _case(row, state_at(db, case, row.seq, last=last))


def find(db: Database, case: UUID) -> Case | None:
    """The case without its state."""
    row = db.one(reads.CASE, {"id": case})
    return None if row is None else _case(row, {})


def state_at(db: Database, case: UUID, seq: int, *, last: int | None = None) -> dict[str, Any]:
    """The state as checkpoint `seq` left it, with lists for its logs; CheckpointDamaged if it can't be put together.

    last: only so many items of each log, behind a text that counts those before.
    """
    return expanded(_stored(db, case, seq), fetching(db.all, case), last)


def changes(db: Database, case: UUID, a: int, b: int) -> list[Operation]:
    """What changed from checkpoint `a` to `b`, as RFC 6902 operations on a state with lists for its logs."""
    return diff(_stored(db, case, a), _stored(db, case, b), fetching(db.all, case))


def _stored(db: Database, case: UUID, seq: int) -> dict[str, Any]:
    row = db.one(reads.CHAIN, {"id": case, "seq": seq})
    return state_of(db.all, case, None if row is None else row.chain, seq)


def oldest(db: Database, case: UUID) -> int:
    """The first checkpoint that the case still has; what was before is folded into it."""
    row = db.one(reads.OLDEST, {"id": case})
    return 0 if row is None else int(row.seq)


def select(db: Database, which: Filter, *, cursor: str | None = None, limit: int = 50) -> Page:
    """The newest cases that match, without their states. cursor: of the page before; BadCursor if it is none.

    Nothing is passed over or shown twice while cases come and go: a cursor is a place in the order of their making.
    """
    at, last = _place(cursor)
    rows = db.all(
        reads.LIST,
        {
            "workflow": which.workflow,
            **which.by_status,
            "step": which.step,
            "parent": which.parent,
            "tags": codec.encode(dict(which.tags)) if which.tags else None,
            "older": which.older_than,
            "error": None if which.error is None else containing(which.error),
            "begins": None if which.begins is None else f"{literal(which.begins)}%",
            "cursor_at": at,
            "cursor_id": last,
            "limit": check_limit(limit) + 1,
        },
    )
    page = Page(_case(row, {}) for row in rows[:limit])
    if len(rows) > limit and page:
        page.cursor = _cursor(page[-1])
    return page


def queued(db: Database, cases: Sequence[UUID]) -> list[Ring]:
    """The messages of those of the cases that wait for a worker now."""
    return rings(db.all(reads.QUEUED, {"ids": list(cases)})) if cases else []


def standing(db: Database, case: UUID) -> Row:
    """What else there is to know about where the case stands: see `keepstep.checkpoint.why.Standing`."""
    return db.all(reads.STANDING, {"id": case})[0]


def counts(db: Database, workflow: str | None = None) -> dict[str, int]:
    """How many cases there are by status."""
    check_text("workflow", workflow)
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
                "code": code_of(row),
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
    acts = [
        Event(
            at=row.at,
            kind="audit",
            seq=codec.decode(row.detail).get("seq") if row.detail else None,
            step=row.verb,
            detail={"actor": row.actor, "reason": row.reason, **(codec.decode(row.detail) if row.detail else {})},
        )
        for row in db.all(steering.HISTORY, {"id": case})
    ]
    fanned = [
        Event(at=fan.opened_at, kind="branches", seq=fan.seq, step=", ".join(fan.names), detail={"told": told(fan)})
        for fan in fans(db, case)
    ]
    return sorted([*checkpoints, *attempts, *sent, *acts, *fanned], key=lambda event: event.at)


def written_by(db: Database, case: UUID) -> dict[str, Any]:
    """What code wrote the latest checkpoint, and of which schema version its state is."""
    row = db.one(reads.WRITTEN_BY, {"id": case})
    return {} if row is None else {"schema_version": row.schema_version, "code": code_of(row)}


def code_of(row: Row) -> dict[str, str | None] | None:
    """What a worker ran: what its deploy calls it, the workflow's fingerprint, keepstep's version. None: no worker."""
    if row.keepstep is None:
        return None
    return {"code": row.code or None, "fingerprint": row.fingerprint, "keepstep": row.keepstep}


def open_waits(db: Database, case: UUID) -> list[dict[str, Any]]:
    """What the case waits for: name, prompt, the payload's JSON Schema, deadline.

    stream: it is the next message of one, not a decision. approvers: how many must agree. digest: of what is asked.
    """
    return [
        {
            "name": row.name,
            "prompt": codec.decode(row.prompt) if row.prompt else None,
            "schema": codec.decode(row.payload_schema) if row.payload_schema else None,
            "deadline": row.deadline,
            "opened_at": row.opened_at,
            "stream": row.stream,
            "approvers": row.approvers,
            "digest": row.digest,
        }
        for row in db.all(reads.OPEN_WAITS, {"id": case})
    ]


def _cursor(case: Case) -> str:
    return urlsafe_b64encode(f"{case.created_at.isoformat()} {case.id}".encode()).decode().rstrip("=")


def _place(cursor: str | None) -> tuple[datetime | None, UUID | None]:
    if cursor is None:
        return None, None
    try:
        at, _, last = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().partition(" ")
        return datetime.fromisoformat(at), UUID(last)
    except (ValueError, TypeError):
        raise BadCursor(f"{cursor!r} is no cursor: take the `cursor` of the page before, as it is.") from None


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
        priority=row.priority,
        parent=tuple(codec.decode(row.parent)) if row.parent else None,
        tags=codec.decode(row.tags) if row.tags else {},
        state=state,
    )
