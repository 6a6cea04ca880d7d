"""Signals: sent to a case, matched with what it waits for, consumed by a checkpoint of their own.

Lock order: the head first, then everything else of its case. `deliver` looks in a second statement after the lock;
it runs when a signal is sent, after a commit into a wait, in the sweep, and before a deadline fires.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.commits import decode_target
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.delta import DELTA_OVERHEAD
from keepstep.checkpoint.payloads import Fits, misfit, unchecked
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sql import reads
from keepstep.checkpoint.sql import signals as sql
from keepstep.steps import state as states
from keepstep.steps.decide import storable
from keepstep.steps.definition import check_name
from keepstep.steps.errors import (
    AlreadyDecided,
    BadPayload,
    BadSignal,
    BadState,
    CaseFinished,
    DefinitionError,
    UnknownCase,
)
from keepstep.steps.keys import case_id, why_unstorable
from keepstep.steps.workflow import Target

Fate = Literal["delivered", "kept", "repeated", "late"]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A signal as it is sent. payload: any JSON. dedupe_key: sent twice with one key, it counts once."""

    name: str
    payload: Any = None
    actor: str | None = None
    dedupe_key: str | None = None


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
    db: Database,
    workflow: str,
    thread_id: str,
    signal: Signal,
    *,
    fits: Fits = unchecked,
    max_bytes: int,
) -> Receipt:
    """Store the signal and deliver it if the case waits for it.

    Raises BadSignal, UnknownCase, CaseFinished, BadPayload (too large, or it doesn't fit what the case asked for;
    nothing is stored), and AlreadyDecided (another decision came first).
    """
    _check(signal, f"{workflow}/{thread_id} signal {signal.name}", max_bytes)
    case = case_id(workflow, thread_id)
    with db.transaction() as connection:
        head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        if head is None:
            raise _absent(connection, case, workflow, thread_id)
        ring = _deliver(connection, head, fits)  # an earlier signal may still be on its way
        if ring is not None or head.status == "waiting":
            head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        if head is None:
            raise _absent(connection, case, workflow, thread_id)
        receipt = _receive(connection, head, signal, fits)
    return receipt if receipt.ring is not None or ring is None else replace(receipt, ring=ring)


def _receive(connection: sa.Connection, head: Row, signal: Signal, fits: Fits) -> Receipt:
    if signal.dedupe_key is not None and _first(connection, sql.SAME_SIGNAL, head, signal):
        return Receipt(fate="repeated")
    wait = _first(connection, sql.OPEN_WAIT, head, signal)
    if wait is None:
        early = _early(connection, head, signal)
        if early is not None:
            return early
        _insert(connection, head, signal)
        return Receipt(fate="kept")
    reason = misfit(wait.payload_schema, signal.payload) or fits(head.workflow, wait.into_field, signal.payload)
    if reason:
        raise BadPayload(f"{head.workflow}/{head.thread_id}: the payload of {signal.name!r} doesn't fit: {reason}")
    _insert(connection, head, signal)
    return Receipt(fate="delivered", ring=_deliver(connection, head, fits))


def _check(signal: Signal, where: str, max_bytes: int) -> None:
    """Refuse what can't be stored, before anything is locked."""
    try:
        check_name("signal", signal.name, where)
    except DefinitionError as error:
        raise BadSignal(str(error)) from None
    for name, text in (("actor", signal.actor), ("dedupe key", signal.dedupe_key)):
        if text is not None and (not isinstance(text, str) or len(text) > 255 or why_unstorable(text)):
            raise BadSignal(f"{where}: the {name} must be text of at most 255 characters without NUL, not {text!r}")
    try:
        states.refuse_what_json_lacks(signal.payload, where)
    except BadState as error:
        raise BadPayload(str(error)) from None
    size = len(codec.encode(signal.payload).encode())
    if size > max_bytes:
        raise BadPayload(f"{where}: the payload has {size:,} bytes, the most is {max_bytes:,}: send a reference to it")


def deliver(db: Database, case: UUID, fits: Fits = unchecked) -> Ring | None:
    """Match the case's open wait with a signal that is there for it. None: nothing to do."""
    with db.transaction() as connection:
        head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        return None if head is None else _deliver(connection, head, fits)


def expire(db: Database, case: UUID, fits: Fits = unchecked) -> Ring | None:
    """Deliver first; then, if a wait's deadline has passed, go on with its `on_timeout`, or fail the case."""
    with db.transaction() as connection:
        head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
        if head is None or head.status != "waiting":
            return None
        delivered = _deliver(connection, head, fits)
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


def _deliver(connection: sa.Connection, head: Row, fits: Fits) -> Ring | None:
    if head.status != "waiting":
        return None
    while (match := connection.execute(sql.MATCH, {"id": head.id, "seq": head.seq}).first()) is not None:
        payload = codec.decode(match.payload)
        reason = misfit(match.payload_schema, payload) or fits(head.workflow, match.into_field, payload)
        if reason is None:
            return _consume(connection, head, match, payload)
        why = storable(f"it doesn't fit the wait: {reason}")
        connection.execute(sql.REFUSE, {"signal": match.signal, "why": why})
    return None


def _consume(connection: sa.Connection, head: Row, match: Row, payload: Any) -> Ring | None:
    if isinstance(payload, dict) and match.actor and payload.get("actor") is None:
        asked = codec.decode(match.payload_schema) if match.payload_schema else {}
        if "actor" in asked.get("properties", {}):
            payload["actor"] = match.actor
    path = match.into_field and states.pointer(match.into_field)
    delta = codec.encode([{"op": "add", "path": path, "value": payload}] if path else [])
    target = decode_target(match.then_target)
    params = {"id": head.id, "seq": head.seq, "signal": match.signal, "name": match.name, "payload": delta}
    if target is None:
        connection.execute(sql.DELIVER_LAST, params | {"status": "completed", "target": None})
        return None
    weight = {"weight": len(delta.encode()) + DELTA_OVERHEAD, "status": "queued"}
    connection.execute(sql.DELIVER, params | _columns(target) | weight)
    return _ring(head, target)


def _early(connection: sa.Connection, head: Row, signal: Signal) -> Receipt | None:
    """The case isn't waiting for this name: was it decided before, or is its deadline over? None: keep the signal."""
    last = _first(connection, sql.LAST_WAIT, head, signal)
    if last is not None and last.fate == "expired":
        _insert(connection, head, signal, refused="it came after the deadline")
        return Receipt(fate="late")
    first = _first(connection, sql.FIRST_DECISION, head, signal)
    if first is None:
        return None
    if codec.decode(first.payload) == signal.payload:
        return Receipt(fate="repeated")
    raise AlreadyDecided(head.workflow, head.thread_id, signal.name, codec.decode(first.payload))


def _insert(connection: sa.Connection, head: Row, signal: Signal, refused: str | None = None) -> None:
    connection.execute(
        sql.INSERT,
        {
            "id": head.id,
            "name": signal.name,
            "payload": codec.encode(signal.payload),
            "actor": signal.actor,
            "dedupe_key": signal.dedupe_key if refused is None else None,
            "refused": refused,
        },
    )


def _first(connection: sa.Connection, statement: sa.Executable, head: Row, signal: Signal) -> Row | None:
    named = {"id": head.id, "seq": head.seq, "name": signal.name, "dedupe_key": signal.dedupe_key}
    return connection.execute(statement, named).first()


def _absent(connection: sa.Connection, case: UUID, workflow: str, thread_id: str) -> UnknownCase | CaseFinished:
    row = connection.execute(reads.CASE, {"id": case}).first()
    if row is None:
        return UnknownCase(workflow, thread_id)
    return CaseFinished(workflow, thread_id, f"it has {row.status}; it takes no signal any more.")


def _columns(target: Target) -> dict[str, Any]:
    return {"target": target.step, "queue": target.queue, "timeout": target.timeout, "in_doubt": target.in_doubt}


def _ring(head: Row, target: Target) -> Ring | None:
    if head.paused:
        return None
    return Ring.to(target, case=head.id, seq=head.seq + 1, workflow=head.workflow, thread_id=head.thread_id)
