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
from keepstep.checkpoint.mask import has_secrets
from keepstep.checkpoint.payloads import UNCHECKED, Payloads, fitted
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sizes import too_large
from keepstep.checkpoint.sql import reads
from keepstep.checkpoint.sql import signals as sql
from keepstep.checkpoint.votes import was_given
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
from keepstep.steps.moves import TERMINAL
from keepstep.steps.sameness import same

TRIES = 5

Fate = Literal["delivered", "counted", "kept", "repeated", "late"]


@dataclass(frozen=True, kw_only=True)
class Signal:
    """A signal as it is sent.

    payload: any JSON. dedupe_key: sent twice with one key, it counts once. digest: of what was shown to whoever
    decides; refused if something else is being asked. stream: a message for `receive`, not a decision. version: the
    schema version of the sender's code, the case's own if it has none; `send` fills it in.
    """

    name: str
    payload: Any = None
    actor: str | None = None
    dedupe_key: str | None = None
    digest: str | None = None
    stream: bool = False
    version: int | None = None


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What became of a signal.

    fate: "delivered" (the case goes on, or waits for the others that it needs), "counted" (one of several approvers),
    "kept" (it isn't waiting for it yet), "repeated" (the same was sent before), "late" (the deadline had passed; it is
    kept and shown). paused: nothing goes on before the case is resumed. ring: the message to send now. rung: it was
    sent; otherwise the sweep does it.
    """

    fate: Fate
    paused: bool = False
    ring: Ring | None = None
    rung: bool = False


def send(
    db: Database, workflow: str, thread_id: str, signal: Signal, *, code: Payloads = UNCHECKED, max_bytes: int
) -> Receipt:
    """Store the signal and deliver it if the case waits for it.

    max_bytes: of the payload, and of the state with it. Raises BadSignal, UnknownCase, CaseFinished, BadPayload (too
    large, or it doesn't fit what the case asked for; nothing is stored), StaleDecision (something else is being asked,
    or nothing), and AlreadyDecided (another one came first).
    """
    signal = _checked(signal, f"{workflow}/{thread_id} signal {signal.name}", max_bytes)
    case = case_id(workflow, thread_id)
    for _ in range(TRIES):
        with db.transaction() as connection:
            head = lock_head(connection, case)
            ring = None if head is None else deliver_locked(connection, head, code, max_bytes)  # one before this
            head = lock_head(connection, case)
            if head is not None:
                receipt = replace(_receive(connection, head, signal, code, max_bytes), paused=head.paused)
                return receipt if receipt.ring is not None or ring is None else replace(receipt, ring=ring)
            if (told := _to_nobody(connection, case, workflow, thread_id, signal)) is not None:
                return told
    raise CaseFinished(workflow, thread_id, "it keeps ending and being revived. Try again.")


def _receive(connection: sa.Connection, head: Row, signal: Signal, code: Payloads, max_bytes: int) -> Receipt:
    version = code.version(head.workflow) or head.schema_version
    signal = replace(signal, version=version)
    if signal.dedupe_key is not None and _first(connection, sql.SAME_SIGNAL, head, signal):
        return Receipt(fate="repeated")
    wait = _first(connection, sql.OPEN_WAIT, head, signal)
    if wait is None:
        return _keep(connection, head, signal)
    if signal.digest is not None and signal.digest != wait.digest:
        raise _stale(head, signal, f"{wait.digest} is being asked now")
    payload, unfit = fitted(connection, head, head.seq, wait, signal.payload, version, code)
    reason = unfit or too_large(connection, head.id, head.seq, wait.into_field, payload, max_bytes)
    if reason:
        raise BadPayload(f"{head.workflow}/{head.thread_id}: the payload of {signal.name!r} doesn't fit: {reason}")
    if payload is signal.payload:  # it fits as it is: no newer code is needed to deliver it
        signal = replace(signal, version=head.schema_version)
    if wait.approvers > 1 and was_given(connection, head, wait, signal.actor, payload):
        return Receipt(fate="repeated")
    _insert(connection, head, signal)
    ring = deliver_locked(connection, head, code, max_bytes)
    counted = wait.approvers > 1 and _first(connection, sql.OPEN_WAIT, head, signal) is not None
    return Receipt(fate="counted" if counted else "delivered", ring=ring)


def _keep(connection: sa.Connection, head: Row, signal: Signal) -> Receipt:
    """The case isn't waiting for this name. A decision may have been made before, or its deadline may be over."""
    if not signal.stream:
        last = _first(connection, sql.LAST_WAIT, head, signal)
        if signal.digest is not None and (last is None or last.digest != signal.digest or last.fate == "dropped"):
            raise _stale(head, signal, "that isn't being asked now")
        if last is not None and last.fate == "expired":
            _insert(connection, head, signal, refused="it came after the deadline")
            return Receipt(fate="late")
        made = connection.execute(sql.FIRST_DECISION, {"id": head.id, "name": signal.name}).all()
        decisions = [codec.decode(row.payload) for row in made]
        if any(same(decision, signal.payload) for decision in decisions):
            return Receipt(fate="repeated")
        if decisions:
            hidden = has_secrets(connection, head.id)
            raise AlreadyDecided(head.workflow, head.thread_id, signal.name, decisions[0], hidden=hidden)
    _insert(connection, head, signal)
    return Receipt(fate="kept")


def _stale(head: Row, signal: Signal, instead: str) -> StaleDecision:
    message = f"{signal.name!r} decides about {signal.digest}, but {instead}. Look again."
    return StaleDecision(head.workflow, head.thread_id, message)


def _checked(signal: Signal, where: str, max_bytes: int) -> Signal:
    """The signal as it is stored: what can't be is refused before anything is locked."""
    try:
        check_name("signal", signal.name, where)
    except DefinitionError as error:
        raise BadSignal(str(error)) from None
    for name, text in (("actor", signal.actor), ("dedupe key", signal.dedupe_key), ("digest", signal.digest)):
        if text is not None and (not isinstance(text, str) or len(text) > 255 or why_unstorable(text)):
            raise BadSignal(f"{where}: the {name} must be text of at most 255 characters without NUL, not {text!r}")
        if text is not None and not text.strip():
            raise BadSignal(f"{where}: the {name} is empty: leave it away, or say it")
    try:
        states.refuse_what_json_lacks(signal.payload, where)
        payload = codec.encode(signal.payload)
        plain = codec.decode(payload)
    except (BadState, RecursionError) as error:
        raise BadPayload(str(error) if isinstance(error, BadState) else f"{where}: it is nested too deeply") from None
    size = len(payload.encode())
    if size > max_bytes:
        raise BadPayload(f"{where}: the payload has {size:,} bytes, the most is {max_bytes:,}: send a reference to it")
    return replace(signal, payload=plain, actor=signal.actor and signal.actor.strip())


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
            "schema_version": signal.version,
        },
    )


def _first(connection: sa.Connection, statement: sa.Executable, head: Row, signal: Signal) -> Row | None:
    named = {"id": head.id, "name": signal.name, "dedupe_key": signal.dedupe_key, "stream": signal.stream}
    return connection.execute(statement, named).first()


def _to_nobody(connection: sa.Connection, case: UUID, workflow: str, thread_id: str, signal: Signal) -> Receipt | None:
    """No live case: an error, unless this very signal was used before the case ended. None: it is alive again."""
    row = connection.execute(reads.CASE, {"id": case}).first()
    if row is None:
        raise UnknownCase(workflow, thread_id)
    if row.status not in TERMINAL:
        return None
    named = {"id": case, "name": signal.name, "dedupe_key": signal.dedupe_key, "stream": signal.stream}
    if signal.dedupe_key is not None and connection.execute(sql.SAME_SIGNAL_OF_ENDED, named).first():
        return Receipt(fate="repeated")
    raise CaseFinished(workflow, thread_id, f"it has {_ENDED[row.status]}; it takes no signal any more.")


_ENDED = {"completed": "completed", "failed": "failed", "cancelled": "been cancelled"}
