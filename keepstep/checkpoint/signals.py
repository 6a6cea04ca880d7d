"""Signals: sent to a case, matched with what it waits for, consumed by a checkpoint of their own.

Lock order: the head first, then everything else of its case. `deliver` looks in a second statement after the lock;
it runs when a signal is sent, after a commit into a wait, in the sweep, and before a deadline fires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import jsonschema
import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.commits import decode_target
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.delta import DELTA_OVERHEAD
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sql import reads
from keepstep.checkpoint.sql import signals as sql
from keepstep.steps import state as states
from keepstep.steps.errors import AlreadyDecided, BadPayload, BadState, CaseFinished, UnknownCase
from keepstep.steps.keys import case_id
from keepstep.steps.workflow import Target

Fate = Literal["delivered", "kept", "repeated", "late"]


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What became of a signal.

    fate: "delivered" (the case goes on), "kept" (it isn't waiting for it yet), "repeated" (the same was sent before),
    "late" (the deadline had passed; it is kept and shown). ring: the message to send now. rung: it was sent; otherwise
    the sweep does it.
    """

    fate: Fate
    ring: Ring | None = None
    rung: bool = False


def send(
    db: Database, workflow: str, thread_id: str, name: str, payload: Any, *, actor: str | None, dedupe_key: str | None
) -> Receipt:
    """Store the signal and deliver it if the case waits for it.

    Raises UnknownCase, CaseFinished, BadPayload (it doesn't fit what the case asked for; nothing is stored), and
    AlreadyDecided (another decision came first).
    """
    try:
        states.refuse_what_json_lacks(payload, f"{workflow}/{thread_id} signal {name}")
    except BadState as error:
        raise BadPayload(str(error)) from None
    case = case_id(workflow, thread_id)
    with db.transaction() as connection:
        head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        if head is None:
            raise _absent(connection, case, workflow, thread_id)
        if dedupe_key is not None and _first(connection, sql.SAME_SIGNAL, head, name, dedupe_key=dedupe_key):
            return Receipt(fate="repeated")
        wait = _first(connection, sql.OPEN_WAIT, head, name)
        if wait is None:
            early = _early(connection, head, name, payload, actor)
            if early is not None:
                return early
        else:
            misfit = _misfit(wait.payload_schema, payload)
            if misfit:
                raise BadPayload(f"{workflow}/{thread_id}: the payload of {name!r} doesn't fit: {misfit}")
        _insert(connection, head, name, payload, actor, dedupe_key)
        ring = _deliver(connection, head)
    return Receipt(fate="kept" if wait is None else "delivered", ring=ring)


def deliver(db: Database, case: UUID) -> Ring | None:
    """Match the case's open wait with a signal that is there for it. None: nothing to do."""
    with db.transaction() as connection:
        head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        return None if head is None else _deliver(connection, head)


def expire(db: Database, case: UUID) -> Ring | None:
    """Deliver first; then, if a wait's deadline has passed, go on with its `on_timeout`, or fail the case."""
    with db.transaction() as connection:
        head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        if head is None or head.status != "waiting":
            return None
        delivered = _deliver(connection, head)
        if delivered is not None:
            return delivered
        overdue = connection.execute(sql.OVERDUE, {"id": case, "seq": head.seq}).first()
        return None if overdue is None else _expire(connection, head, overdue)


def _expire(connection: sa.Connection, head: Row, overdue: Row) -> Ring | None:
    target = decode_target(overdue.on_timeout)
    at = {"id": head.id, "seq": head.seq}
    if target is None:
        error = {"type": "WaitExpired", "message": f"nobody answered {overdue.name!r} before its deadline"}
        connection.execute(sql.EXPIRE_FAIL, at | {"error": codec.encode(error)})
        return None
    params = at | _columns(target) | {"name": overdue.name, "weight": DELTA_OVERHEAD}
    connection.execute(sql.EXPIRE, params)
    return _ring(head, target)


def _deliver(connection: sa.Connection, head: Row) -> Ring | None:
    if head.status != "waiting":
        return None
    while (match := connection.execute(sql.MATCH, {"id": head.id, "seq": head.seq}).first()) is not None:
        payload = codec.decode(match.payload)
        misfit = _misfit(match.payload_schema, payload)
        if misfit:
            connection.execute(sql.REFUSE, {"signal": match.signal, "why": f"it doesn't fit the wait: {misfit}"})
            continue
        return _consume(connection, head, match, payload)
    return None


def _consume(connection: sa.Connection, head: Row, match: Row, payload: Any) -> Ring | None:
    if isinstance(payload, dict) and match.actor and payload.get("actor") is None:
        asked = codec.decode(match.payload_schema) if match.payload_schema else {}
        if "actor" in asked.get("properties", {}):
            payload["actor"] = match.actor
    change = [] if match.into_field is None else [{"op": "add", "path": f"/{match.into_field}", "value": payload}]
    delta = codec.encode(change)
    target = decode_target(match.then_target)
    params = {"id": head.id, "seq": head.seq, "signal": match.signal, "name": match.name, "payload": delta}
    if target is None:
        connection.execute(sql.DELIVER_LAST, params | {"status": "completed", "target": None})
        return None
    weight = {"weight": len(delta.encode()) + DELTA_OVERHEAD, "status": "queued"}
    connection.execute(sql.DELIVER, params | _columns(target) | weight)
    return _ring(head, target)


def _early(connection: sa.Connection, head: Row, name: str, payload: Any, actor: str | None) -> Receipt | None:
    """The case isn't waiting for this name: was it decided before, or is its deadline over? None: keep the signal."""
    last = _first(connection, sql.LAST_WAIT, head, name)
    if last is not None and last.fate == "expired":
        _insert(connection, head, name, payload, actor, None, refused="it came after the deadline")
        return Receipt(fate="late")
    first = _first(connection, sql.FIRST_DECISION, head, name)
    if first is None:
        return None
    if codec.decode(first.payload) == payload:
        return Receipt(fate="repeated")
    raise AlreadyDecided(head.workflow, head.thread_id, name, codec.decode(first.payload))


def _insert(
    connection: sa.Connection,
    head: Row,
    name: str,
    payload: Any,
    actor: str | None,
    dedupe_key: str | None,
    refused: str | None = None,
) -> None:
    connection.execute(
        sql.INSERT,
        {
            "id": head.id,
            "name": name,
            "payload": codec.encode(payload),
            "actor": actor,
            "dedupe_key": dedupe_key,
            "refused": refused,
        },
    )


def _first(connection: sa.Connection, statement: sa.Executable, head: Row, name: str, **more: Any) -> Row | None:
    return connection.execute(statement, {"id": head.id, "seq": head.seq, "name": name, **more}).first()


def _absent(connection: sa.Connection, case: UUID, workflow: str, thread_id: str) -> UnknownCase | CaseFinished:
    row = connection.execute(reads.CASE, {"id": case}).first()
    if row is None:
        return UnknownCase(workflow, thread_id)
    return CaseFinished(workflow, thread_id, f"it has {row.status}; it takes no signal any more.")


def _misfit(schema: str | None, payload: Any) -> str | None:
    """Why the payload doesn't fit the stored JSON Schema; None if it does."""
    if schema is None:
        return None
    error = next(iter(jsonschema.Draft202012Validator(codec.decode(schema)).iter_errors(payload)), None)
    return None if error is None else f"{error.json_path}: {error.message}"


def _columns(target: Target) -> dict[str, Any]:
    return {"target": target.step, "queue": target.queue, "timeout": target.timeout, "in_doubt": target.in_doubt}


def _ring(head: Row, target: Target) -> Ring | None:
    if head.paused:
        return None
    return Ring.to(target, case=head.id, seq=head.seq + 1, workflow=head.workflow, thread_id=head.thread_id)
