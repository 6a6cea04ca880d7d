"""Waits: matched with the signals that are there for them, or ended by their deadline.

Each runs inside a transaction that has locked the case's head, and looks in a second statement after the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.answers import asks_for
from keepstep.checkpoint.blobs import keep
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.delta import DELTA_OVERHEAD
from keepstep.checkpoint.filters import check_limit, check_text
from keepstep.checkpoint.parked import park
from keepstep.checkpoint.payloads import UNCHECKED, Payloads, can_tell, fitted
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sizes import too_large
from keepstep.checkpoint.sql import signals as sql
from keepstep.checkpoint.targets import decode_target
from keepstep.checkpoint.votes import more_needed, votes_of, why_not_counted
from keepstep.steps import state as states
from keepstep.steps.decide import storable
from keepstep.steps.step import Target
from keepstep.steps.waiting import WAIT_EXPIRED


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A decision that a case waits for. digest: of what is asked. votes: of the `approvers` that are needed.

    id: the case's.
    """

    id: UUID
    workflow: str
    thread_id: str
    name: str
    prompt: Any
    schema: dict[str, Any] | None
    deadline: datetime | None
    opened_at: datetime
    digest: str | None
    approvers: int
    votes: int


Place = tuple[datetime, UUID, str]
"""Where a decision stands in the inbox: when it was asked, its case's id, its name."""


def lock_head(connection: sa.Connection, case: UUID, *, patient: bool = True) -> Row | None:
    """Lock the case's head for the rest of the transaction. None: the case has ended, or never began.

    patient: wait for whoever has it locked; otherwise it is None then, too.
    """
    return connection.execute(sql.LOCK_HEAD if patient else sql.LOCK_FREE_HEAD, {"id": case}).first()


def deliver(
    db: Database, case: UUID, code: Payloads = UNCHECKED, *, max_bytes: int | None = None, patient: bool = True
) -> Ring | None:
    """Match the case's open waits with signals that are there for them. None: nothing to ring for.

    max_bytes: of the state, with what is delivered; None is no limit. patient: see `lock_head`.
    """
    with db.transaction() as connection:
        head = lock_head(connection, case, patient=patient)
        return None if head is None else deliver_locked(connection, head, code, max_bytes)


def expire(
    db: Database, case: UUID, code: Payloads = UNCHECKED, *, max_bytes: int | None = None, patient: bool = True
) -> Ring | None:
    """Deliver first; then, if a wait's deadline has passed, go on as it says: a step, a default, or failure.

    Otherwise it may be time to remind somebody. patient: see `lock_head`.
    """
    with db.transaction() as connection:
        head = lock_head(connection, case, patient=patient)
        if head is None or head.status != "waiting":
            return None
        ring = deliver_locked(connection, head, code, max_bytes)
        if ring is not None:
            return ring
        head = lock_head(connection, case)
        if head is None:
            return None
        overdue = connection.execute(sql.OVERDUE, {"id": case}).first()
        if overdue is not None:
            return _expire(connection, head, overdue)
        connection.execute(sql.REMIND, {"id": case, "seq": head.seq})
        connection.execute(sql.NEXT_DEADLINE, {"id": case})
        return None


def deliver_locked(connection: sa.Connection, head: Row, code: Payloads, max_bytes: int | None) -> Ring | None:
    """As `deliver`, of a head that this transaction has locked; the head's row is out of date afterwards."""
    if head.status != "waiting":
        return None
    seq = head.seq
    while (match := connection.execute(sql.MATCH, {"id": head.id}).first()) is not None:
        version = match.schema_version or head.schema_version
        if not can_tell(code, head, version):
            return None  # a newer worker's sweep delivers it
        sent = codec.decode(match.payload)
        payload, unfit = fitted(connection, head, seq, match, sent, version, code)
        reason = (
            _other_question(match)
            or unfit
            or why_not_counted(connection, head, match, payload)
            or too_large(connection, head.id, seq, match.into_field, payload, max_bytes)
        )
        if reason is not None:
            why = storable(f"it doesn't fit the wait: {reason}")
            connection.execute(sql.REFUSE, {"signal": match.signal, "why": why})
        elif more_needed(connection, head, match, payload, upcast=payload is not sent):
            continue
        else:
            taken = _with_actor(connection, head, seq, match, payload, code)
            ring, on = _go_on(connection, head, seq, match, taken, kind="signal", fate="decided", signal=match.signal)
            if on:
                return ring
            seq += 1  # one of several that are all needed
    return None


def inbox(db: Database, *, workflow: str | None, limit: int, behind: Place | None = None) -> list[Asked]:
    """Decisions that are waited for, the oldest first. behind: the place of the last one of the page before."""
    check_text("workflow", workflow)
    place = dict(zip(("after", "after_id", "after_name"), behind or (None, None, None), strict=True))
    return [
        Asked(
            id=row.id,
            workflow=row.workflow,
            thread_id=row.thread_id,
            name=row.name,
            prompt=codec.decode(row.prompt) if row.prompt else None,
            schema=codec.decode(row.payload_schema) if row.payload_schema else None,
            deadline=row.deadline,
            opened_at=row.opened_at,
            digest=row.digest,
            approvers=row.approvers,
            votes=row.votes,
        )
        for row in db.all(sql.INBOX, {"workflow": workflow, "limit": check_limit(limit), **place})
    ]


def _other_question(match: Row) -> str | None:
    """Whoever decided before the case asked may have been shown something else."""
    if match.about is None or match.about == match.digest:
        return None
    return f"it decides about {match.about}, and {match.digest} is asked"


def _with_actor(connection: sa.Connection, head: Row, seq: int, match: Row, payload: Any, code: Payloads) -> Any:
    """Who decided, in a payload that has a field for it and doesn't say so itself."""
    unsaid = isinstance(payload, dict) and payload.get("actor") is None
    if not unsaid or not match.actor or not match.payload_schema:
        return payload
    filled = {**payload, "actor": match.actor}
    if not asks_for("actor", codec.decode(match.payload_schema)):
        return payload
    _, unfit = fitted(connection, head, seq, match, filled, head.schema_version, code)
    return filled if unfit is None else payload


def _expire(connection: sa.Connection, head: Row, overdue: Row) -> Ring | None:
    if overdue.default_payload is not None:
        [payload] = codec.decode(overdue.default_payload)
        ring, on = _go_on(connection, head, head.seq, overdue, payload, kind="timeout", fate="expired", signal=None)
        return ring if on else None
    target = decode_target(overdue.on_timeout)
    at = {"id": head.id, "seq": head.seq}
    if target is None:
        error = {"type": WAIT_EXPIRED, "message": f"nobody answered {overdue.name!r} before its deadline"}
        connection.execute(sql.EXPIRE_FAIL, at | {"error": codec.encode(error)})
        return None
    params = at | columns(target) | {"name": overdue.name, "weight": DELTA_OVERHEAD}
    connection.execute(sql.EXPIRE, params)
    return ring_for(head, head.seq, target)


def _go_on(
    connection: sa.Connection, head: Row, seq: int, wait: Row, payload: Any, *, kind: str, fate: str, signal: int | None
) -> tuple[Ring | None, bool]:
    """Write the payload's checkpoint. The message to send, and whether the case goes on (or waits for others still)."""
    path = wait.into_field and states.pointer(wait.into_field)
    operations = [{"op": "add", "path": path, "value": payload}] if path else []
    whole = codec.encode(operations)
    delta, blobs = park(whole, operations)
    keep(connection.execute, head.id, blobs)
    target = decode_target(wait.then_target)
    params = {
        "id": head.id,
        "seq": seq,
        "name": wait.name,
        "signal": signal,
        "votes_of": None if signal is None else votes_of(wait, payload),
        "kind": kind,
        "fate": fate,
        "payload": delta,
        "weight": len(whole.encode()) + DELTA_OVERHEAD,
    }
    if wait.need_all and wait.open_waits > 1:
        connection.execute(sql.DELIVER_PART, params | {"status": "waiting", "target": None, "closes": False})
        connection.execute(sql.NEXT_DEADLINE, {"id": head.id})
        return None, False
    if target is None:
        connection.execute(sql.DELIVER_LAST, params | {"status": "completed", "target": None, "closes": True})
        return None, True
    connection.execute(sql.DELIVER, params | columns(target) | {"status": "queued", "closes": True})
    return ring_for(head, seq, target), True


def columns(target: Target) -> dict[str, Any]:
    """The step to go on with, as the statements take it."""
    return {
        "target": target.step,
        "queue": target.queue,
        "timeout": target.timeout,
        "in_doubt": target.in_doubt,
        "heartbeat_timeout": target.heartbeat_timeout,
    }


def ring_for(head: Row, seq: int, target: Target) -> Ring | None:
    """The message for the locked case, which stood at `seq`, and goes on at `target`; None if it is paused."""
    if head.paused:
        return None
    return Ring.to(
        replace(target, queue=head.pinned_queue or target.queue),
        case=head.id,
        seq=seq + 1,
        workflow=head.workflow,
        thread_id=head.thread_id,
        priority=head.priority,
    )
