"""Signals: sent to a case, delivered if it waits for them, kept if it doesn't yet.

Lock order: the head first, then everything else of its case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.payloads import Fits, misfit, unchecked
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sql import reads
from keepstep.checkpoint.sql import signals as sql
from keepstep.checkpoint.waits import deliver_locked, lock_head
from keepstep.steps import state as states
from keepstep.steps.definition import check_name
from keepstep.steps.errors import (
    AlreadyDecided,
    BadPayload,
    BadSignal,
    BadState,
    CaseFinished,
    DefinitionError,
    StaleDecision,
    UnknownCase,
)
from keepstep.steps.keys import case_id, why_unstorable

Fate = Literal["delivered", "counted", "kept", "repeated", "late"]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A signal as it is sent.

    payload: any JSON. dedupe_key: sent twice with one key, it counts once. digest: of what was shown to whoever
    decides; refused if something else is being asked. stream: a message for `receive`, not a decision.
    """

    name: str
    payload: Any = None
    actor: str | None = None
    dedupe_key: str | None = None
    digest: str | None = None
    stream: bool = False


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What became of a signal.

    fate: "delivered" (the case goes on, or waits for the others that it needs), "counted" (one of several approvers),
    "kept" (it isn't waiting for it yet), "repeated" (the same was sent before), "late" (the deadline had passed; it is
    kept and shown). ring: the message to send now. rung: it was sent; otherwise the sweep does it.
    """

    fate: Fate
    ring: Ring | None = None
    rung: bool = False


def send(
    db: Database, workflow: str, thread_id: str, signal: Signal, *, fits: Fits = unchecked, max_bytes: int
) -> Receipt:
    """Store the signal and deliver it if the case waits for it.

    Raises BadSignal, UnknownCase, CaseFinished, BadPayload (too large, or it doesn't fit what the case asked for;
    nothing is stored), StaleDecision (something else is being asked), and AlreadyDecided (another one came first).
    """
    _check(signal, f"{workflow}/{thread_id} signal {signal.name}", max_bytes)
    case = case_id(workflow, thread_id)
    with db.transaction() as connection:
        head = lock_head(connection, case)
        ring = None if head is None else deliver_locked(connection, head, fits)  # one before may be on its way
        head = lock_head(connection, case)
        if head is None:
            return _to_nobody(connection, case, workflow, thread_id, signal)
        receipt = _receive(connection, head, signal, fits)
    return receipt if receipt.ring is not None or ring is None else replace(receipt, ring=ring)


def _receive(connection: sa.Connection, head: Row, signal: Signal, fits: Fits) -> Receipt:
    if signal.dedupe_key is not None and _first(connection, sql.SAME_SIGNAL, head, signal):
        return Receipt(fate="repeated")
    wait = _first(connection, sql.OPEN_WAIT, head, signal)
    if wait is None:
        return _keep(connection, head, signal)
    if signal.digest is not None and signal.digest != wait.digest:
        raise StaleDecision(
            head.workflow,
            head.thread_id,
            f"{signal.name!r} decides about {signal.digest}, but {wait.digest} is being asked now. Look again.",
        )
    reason = misfit(wait.payload_schema, signal.payload) or fits(head.workflow, wait.into_field, signal.payload)
    if reason:
        raise BadPayload(f"{head.workflow}/{head.thread_id}: the payload of {signal.name!r} doesn't fit: {reason}")
    if wait.approvers > 1:
        said = _said_before(connection, head, signal, wait)
        if said is not None:
            return said
    _insert(connection, head, signal)
    ring = deliver_locked(connection, head, fits)
    counted = wait.approvers > 1 and _first(connection, sql.OPEN_WAIT, head, signal) is not None
    return Receipt(fate="counted" if counted else "delivered", ring=ring)


def _keep(connection: sa.Connection, head: Row, signal: Signal) -> Receipt:
    """The case isn't waiting for this name. A decision may have been made before, or its deadline may be over."""
    if not signal.stream:
        last = _first(connection, sql.LAST_WAIT, head, signal)
        if last is not None and last.fate == "expired":
            _insert(connection, head, signal, refused="it came after the deadline")
            return Receipt(fate="late")
        first = _first(connection, sql.FIRST_DECISION, head, signal)
        if first is not None and codec.decode(first.payload) == signal.payload:
            return Receipt(fate="repeated")
        if first is not None:
            raise AlreadyDecided(head.workflow, head.thread_id, signal.name, codec.decode(first.payload))
    _insert(connection, head, signal)
    return Receipt(fate="kept")


def _said_before(connection: sa.Connection, head: Row, signal: Signal, wait: Row) -> Receipt | None:
    """Four eyes are two people's: each actor is counted once, and must be named."""
    if signal.actor is None:
        raise BadSignal(
            f"{head.workflow}/{head.thread_id}: {signal.name!r} wants {wait.approvers} different actors: give actor="
        )
    named = {"id": head.id, "name": signal.name, "wait_seq": wait.seq, "actor": signal.actor}
    said = connection.execute(sql.SAME_VOTER, named).first()
    if said is None:
        return None
    if codec.decode(said.payload) == signal.payload:
        return Receipt(fate="repeated")
    raise AlreadyDecided(head.workflow, head.thread_id, signal.name, codec.decode(said.payload))


def _check(signal: Signal, where: str, max_bytes: int) -> None:
    """Refuse what can't be stored, before anything is locked."""
    try:
        check_name("signal", signal.name, where)
    except DefinitionError as error:
        raise BadSignal(str(error)) from None
    for name, text in (("actor", signal.actor), ("dedupe key", signal.dedupe_key), ("digest", signal.digest)):
        if text is not None and (not isinstance(text, str) or len(text) > 255 or why_unstorable(text)):
            raise BadSignal(f"{where}: the {name} must be text of at most 255 characters without NUL, not {text!r}")
    try:
        states.refuse_what_json_lacks(signal.payload, where)
    except BadState as error:
        raise BadPayload(str(error)) from None
    size = len(codec.encode(signal.payload).encode())
    if size > max_bytes:
        raise BadPayload(f"{where}: the payload has {size:,} bytes, the most is {max_bytes:,}: send a reference to it")


def _insert(connection: sa.Connection, head: Row, signal: Signal, refused: str | None = None) -> None:
    connection.execute(
        sql.INSERT,
        {
            "id": head.id,
            "name": signal.name,
            "payload": codec.encode(signal.payload),
            "actor": signal.actor,
            "dedupe_key": signal.dedupe_key if refused is None else None,
            "stream": signal.stream,
            "digest": signal.digest,
            "refused": refused,
        },
    )


def _first(connection: sa.Connection, statement: sa.Executable, head: Row, signal: Signal) -> Row | None:
    named = {"id": head.id, "name": signal.name, "dedupe_key": signal.dedupe_key, "stream": signal.stream}
    return connection.execute(statement, named).first()


def _to_nobody(connection: sa.Connection, case: UUID, workflow: str, thread_id: str, signal: Signal) -> Receipt:
    """No live case: an error, unless this very signal was consumed before the case ended."""
    named = {"id": case, "name": signal.name, "dedupe_key": signal.dedupe_key}
    if signal.dedupe_key is not None and connection.execute(sql.SAME_SIGNAL_OF_ENDED, named).first():
        return Receipt(fate="repeated")
    row = connection.execute(reads.CASE, {"id": case}).first()
    if row is None:
        raise UnknownCase(workflow, thread_id)
    raise CaseFinished(workflow, thread_id, f"it has {row.status}; it takes no signal any more.")
