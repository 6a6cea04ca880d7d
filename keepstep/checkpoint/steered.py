"""What an operator's verbs have in common: lock the case, refuse what is illegal, act, and note who did it.

Lock order: the head first, then everything else of its case; of a case that has ended, its own row. Whoever comes
second looks after the first has committed, and is told why the verb isn't possible any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import keep
from keepstep.checkpoint.chain import link
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.delta import DELTA_OVERHEAD
from keepstep.checkpoint.fans import LOOK_SECONDS
from keepstep.checkpoint.places import Place, here
from keepstep.checkpoint.ring import Ring, rings
from keepstep.checkpoint.sql import hooks, reads
from keepstep.checkpoint.sql import steering as sql
from keepstep.steps import errors
from keepstep.steps.keys import case_id, why_unstorable
from keepstep.steps.moves import LIVE, MOVES

REWOUND = "the case was rewound"
TRIES = 5

_REFUSALS: dict[str, tuple[type[errors.IllegalMove], str]] = {
    "cancel": (errors.NotCancellable, "only a case that hasn't ended can be cancelled"),
    "pause": (errors.NotPausable, "only a case that hasn't ended, and isn't paused yet, can be paused"),
    "resume": (errors.NotResumable, "only a paused case can be resumed"),
    "retry": (errors.NotRetryable, "only a held or failed case can be retried"),
    "retry_anew": (errors.NotRetryable, "only a held or failed case can be retried"),
    "skip": (errors.NotSkippable, "a case that has completed or was cancelled has no step to skip"),
    "rewind": (errors.NotRewindable, "it can't be rewound"),
    "restart": (errors.NotRestartable, "it can't be restarted"),
    "fork": (errors.NotForkable, "it can't be forked"),
}
_SPOKEN = {"retry_anew": "retry"}


@dataclass(frozen=True, kw_only=True)
class Order:
    """Who wants it, and why.

    repeat_effects: steps may run again under new keys. seen, ended: the latest checkpoint, and whether the case had
    ended, when they looked; MovedOn if that has changed.
    """

    actor: str | None = None
    reason: str | None = None
    repeat_effects: bool = False
    seen: int | None = None
    ended: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Steered:
    """Where the case stands after the verb.

    effects: the steps that may run again. ring: the message to send now. rung: it was sent; else the sweep does it.
    """

    workflow: str
    thread_id: str
    status: str
    step: str | None
    seq: int
    paused: bool
    effects: list[str] = field(default_factory=list)
    ring: Ring | None = None
    rung: bool = False


def steer(
    db: Database,
    workflow: str,
    thread_id: str,
    verb: str,
    order: Order,
    act: Callable[[sa.Connection, Row], list[str] | None],
    detail: Mapping[str, Any] | None = None,
) -> Steered:
    """Lock the case, refuse what is illegal, act, and note who did it."""
    check(order)
    case = case_id(workflow, thread_id)
    for _ in range(TRIES):
        with db.transaction() as connection:
            head = connection.execute(sql.LOCK_HEAD, {"id": case}).first()
            head = head or connection.execute(sql.LOCK_ENDED, {"id": case}).first()
            if head is not None:
                _refuse_changed(head, order)
                _refuse_illegal(head, verb)
                if head.status in ("held", "failed"):
                    connection.execute(hooks.KEEP_REASON, {"id": case, "event": head.status})
                effects = act(connection, head) or []
                steered = steered_now(connection, case, effects)
                before = {"status": head.status, "step": head.step, "seq": head.seq}
                noted = {**(detail or {}), "from": before, "seq": steered.seq, "step": steered.step, "effects": effects}
                if verb == "retry_anew":
                    noted["new_key"] = True
                audit(connection, case, _SPOKEN.get(verb, verb), order, noted)
                return steered
            if connection.execute(sql.KNOWN, {"id": case}).first() is None:
                raise errors.UnknownCase(workflow, thread_id)
    kind, _ = _REFUSALS[verb]  # it came to life or ended between the two looks, again and again
    raise kind(workflow, thread_id, "others keep moving it. Try again.")


def refusal(workflow: str, thread_id: str, verb: str, status: str, *, paused: bool) -> errors.IllegalMove | None:
    """Why a case in this status can't take the verb; None if it can."""
    if verb in ("pause", "resume"):
        legal = status in LIVE and paused == (verb == "resume")
    else:
        legal = status in MOVES[verb].sources
    if legal:
        return None
    kind, rule = _REFUSALS[verb]
    now = status + (", and paused" if paused else "")
    return kind(workflow, thread_id, f"it is {now}; {rule}.", status=status)


def _refuse_changed(head: Row, order: Order) -> None:
    if order.seen is not None and order.seen != head.seq:
        since = f"from checkpoint {order.seen} to {head.seq}"
        raise errors.MovedOn(head.workflow, head.thread_id, since)
    if order.ended is not None and order.ended == head.live:
        raise errors.MovedOn(head.workflow, head.thread_id, f"it is {head.status}")


def _refuse_illegal(head: Row, verb: str) -> None:
    why = refusal(head.workflow, head.thread_id, verb, head.status, paused=head.paused)
    if why is not None:
        raise why


def check(order: Order) -> None:
    for name, text, most in (("actor", order.actor, 255), ("reason", order.reason, 4000)):
        if text is not None and (not isinstance(text, str) or len(text) > most or why_unstorable(text)):
            raise errors.BadAudit(f"the {name} must be text of at most {most} characters without NUL, not {text!r}")


def steered_now(connection: sa.Connection, case: UUID, effects: list[str]) -> Steered:
    row = connection.execute(reads.CASE, {"id": case}).one()
    return Steered(
        workflow=row.workflow,
        thread_id=row.thread_id,
        status=row.status,
        step=row.step,
        seq=row.seq,
        paused=row.paused,
        effects=effects,
        ring=next(iter(rings(connection.execute(sql.READY, {"id": case}))), None),
    )


def audit(connection: sa.Connection, case: UUID, verb: str, order: Order, detail: Mapping[str, Any]) -> None:
    said = {"actor": order.actor, "reason": order.reason}
    connection.execute(sql.AUDIT, {"id": case, "verb": verb, **said, "detail": codec.encode(dict(detail))})


def effects_since(connection: sa.Connection, head: Row, verb: str, order: Order, since: int) -> list[str]:
    """The steps whose code ran from checkpoint `since` on; EffectsWouldRepeat unless the order says that they may."""
    rows = connection.execute(sql.EFFECTS, {"id": head.id, "after": since})
    effects = [f"{row.step}#{row.seq}" for row in rows]
    if effects and not order.repeat_effects:
        raise errors.EffectsWouldRepeat(head.workflow, head.thread_id, verb, effects)
    return effects


def leave_behind(connection: sa.Connection, head: Row, to: int) -> None:
    """What was sent for the past that is left, and not used, will not be. to: the last seq that stands."""
    connection.execute(sql.REFUSE_SIGNALS, {"id": head.id, "why": REWOUND, "to": to})


def revive(connection: sa.Connection, head: Row, move: str, place: Place) -> None:
    at = {"id": head.id, "seq": head.seq, "overhead": DELTA_OVERHEAD}
    connection.execute(sql.REVIVE[move], here(place) | at)


def end(connection: sa.Connection, head: Row, move: str) -> None:
    _leave(connection, head)
    connection.execute(sql.END[move], {"id": head.id, "seq": head.seq})


def _leave(connection: sa.Connection, head: Row) -> None:
    """The case waits for nobody any more."""
    connection.execute(sql.DROP_WAITS, {"id": head.id})
    connection.execute(sql.LEAVE_BRANCHES, {"id": head.id})


def put(
    connection: sa.Connection,
    head: Row,
    move: str,
    place: Place,
    *,
    kind: str,
    by: str,
    back_to: int | None = None,
    max_bytes: int,
) -> int:
    """Put the case there by a new checkpoint; its seq. The lease goes, and the open waits are dropped.

    back_to: the last seq that stands; what came behind it is undone.
    """
    if not head.live:
        revive(connection, head, move, place)
    seq: int = connection.execute(sql.PLACE[move], {"id": head.id, "seq": head.seq, **here(place)}).scalar_one()
    _leave(connection, head)
    write(connection, head.id, seq, place, kind=kind, by=by, back_to=back_to, max_bytes=max_bytes)
    return seq


def write(
    connection: sa.Connection,
    case: UUID,
    seq: int,
    place: Place,
    *,
    kind: str,
    by: str,
    back_to: int | None = None,
    max_bytes: int,
) -> None:
    """Write the checkpoint of a verb, a whole snapshot."""
    stored = link({}, place.state, 0, max_bytes=max_bytes, snapshot=True)
    keep(connection.execute, case, stored.blobs)
    written = {"id": case, "new_seq": seq, "kind": kind, "by": by, "back_to": back_to, "payload": stored.payload}
    connection.execute(sql.CHECKPOINT, here(place) | written)


def reopen(connection: sa.Connection, source: UUID, case: UUID, at: int, seq: int) -> None:
    """Wait again for what `source` waited for after its checkpoint `at`: for branches, or for signals."""
    again = {"source": source, "id": case, "at": at, "new_seq": seq}
    if connection.execute(sql.REOPEN_FAN, again | {"seconds": LOOK_SECONDS}).rowcount:
        return
    connection.execute(sql.REOPEN_WAITS, again)
