"""Where a case may be put by hand: a step to go on with, and the state to take there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import fetching, state_of
from keepstep.checkpoint.database import Row
from keepstep.checkpoint.sql import reads
from keepstep.checkpoint.sql import steering as sql
from keepstep.checkpoint.targets import decode_target
from keepstep.steps import state as states
from keepstep.steps.errors import BadState, IllegalMove, NewerState, NotRetryable, NotSkippable, UnknownStep
from keepstep.steps.removed import instead
from keepstep.steps.step import Step, Target
from keepstep.steps.upcasts import load
from keepstep.steps.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class Place:
    """target: the next step, None behind the last one; while waiting, the step that asked. version: of the state."""

    status: str
    target: Target | None
    state: states.JSON
    version: int


def here(place: Place) -> dict[str, Any]:
    """The place as the statements take it."""
    target = place.target
    return {
        "status": place.status,
        "schema_version": place.version,
        "target": target and target.step,
        "queue": target and target.queue,
        "timeout": target and target.timeout,
        "in_doubt": target and target.in_doubt,
        "heartbeat_timeout": target and target.heartbeat_timeout,
    }


def revived(connection: sa.Connection, head: Row, code: Workflow) -> Place:
    """Before the step that a failed case failed at."""
    row = connection.execute(sql.POSITION, {"id": head.id, "seq": head.seq}).first()
    if row is not None and connection.execute(sql.THEN_OF_BRANCHES, {"id": head.id, "seq": head.seq}).first():
        message = (
            f"it failed with one of its branches. `rewind --to {head.seq}` begins all of them anew, `skip` goes on "
            "without them."
        )
        raise NotRetryable(head.workflow, head.thread_id, message, status=head.status)
    if row is None or row.step is None or row.status == "waiting":
        message = (
            f"it failed because nobody answered in time, not in a step. `rewind --to {head.seq}` asks again, "
            "`skip` goes on without an answer."
        )
        raise NotRetryable(head.workflow, head.thread_id, message, status=head.status)
    return Place(status="queued", target=_found(code, row.step).target, state={}, version=row.schema_version)


def same(connection: sa.Connection, head: Row, code: Callable[[], Workflow]) -> Place:
    """Before the step that a held or failed case stands at."""
    state = _state(connection, head, head.seq)
    if not head.live:
        place = revived(connection, head, code())
        return Place(status="queued", target=place.target, state=state, version=place.version)
    target = Target(
        step=head.step,
        queue=head.queue,
        timeout=head.timeout,
        in_doubt=head.in_doubt,
        heartbeat_timeout=head.heartbeat_timeout,
    )
    return Place(status="queued", target=target, state=state, version=head.schema_version)


def there(connection: sa.Connection, head: Row, code: Workflow, seq: int, refusal: type[IllegalMove]) -> Place:
    """As the case stood after checkpoint `seq`: before a step, or in a wait. A timer of that time isn't run again."""
    named = head.workflow, head.thread_id
    if type(seq) is not int:
        raise refusal(*named, f"a checkpoint is a whole number, not {seq!r}.", status=head.status)
    row = connection.execute(sql.POSITION, {"id": head.id, "seq": seq}).first()
    if row is None:
        message = f"it has no checkpoint {seq}; its last one is {head.seq}. `keepstep history` lists them."
        raise refusal(*named, message, status=head.status)
    if row.step is None:
        raise refusal(*named, f"nothing comes after its checkpoint {seq}: it had {row.status}.", status=head.status)
    return Place(
        status="waiting" if row.status == "waiting" else "queued",
        target=_found(code, row.step).target,
        state=_state(connection, head, seq),
        version=row.schema_version,
    )


def after(
    connection: sa.Connection, head: Row, code: Workflow, update: Mapping[str, Any], to: str | None
) -> tuple[str, Place]:
    """Behind the step or the wait that the case stands at, with a change of its state; and what is skipped."""
    if head.schema_version > code.schema_version:
        message = (
            f"its state has version {head.schema_version}, the code loaded here knows {code.schema_version}. "
            "Use a client with the newer code."
        )
        raise NewerState(head.workflow, head.thread_id, message)
    row = connection.execute(sql.POSITION, {"id": head.id, "seq": head.seq}).first()
    skipped: str | None = head.step or (row.step if row is not None else None)
    if skipped is None:
        raise NotSkippable(head.workflow, head.thread_id, "it has no step to skip.", status=head.status)
    target = _found(code, to).target if to is not None else _next(connection, head, code, skipped, row)
    on = None if target is None else skipped  # of a branch that ends so, the item may be whatever it is
    fetch = fetching(connection.execute, head.id)
    before, copy, _ = load(code, _state(connection, head, head.seq), head.schema_version, step=on, fetch=fetch)
    merged = states.merge(code.state, before, copy, update, fetch)
    status = "completed" if target is None else "queued"
    return skipped, Place(status=status, target=target, state=merged, version=code.schema_version)


def first(connection: sa.Connection, head: Row, code: Workflow, sent: Mapping[str, Any] | None = None) -> Place:
    """At the beginning, with what was sent then, or is sent now.

    If another version of the code took it in then, with the state that it made of it, upcast.
    """
    began = connection.execute(sql.BEGAN, {"id": head.id}).first()
    step = code.entry(None if began is None else began.target)
    if sent is not None:
        made = states.dump(states.load(code.state, sent))
        return Place(status="queued", target=step.target, state=made, version=code.schema_version)
    sent = codec.decode(connection.execute(sql.INPUT, {"id": head.id}).one().input)
    if began is not None and began.schema_version == code.schema_version:
        state = states.load(code.state, sent)
    elif began is None or began.kind == "fork":  # it is folded away, or was another case's
        state = _as_sent(code, sent)
    else:
        fetch = fetching(connection.execute, head.id)
        stored = _state(connection, head, began.seq)
        state = load(code, stored, began.schema_version, step=step.name, fetch=fetch).state
    made = states.dump(state)
    return Place(status="queued", target=step.target, state=made, version=code.schema_version)


def _as_sent(code: Workflow, sent: Mapping[str, Any]) -> BaseModel:
    """What was sent long ago, to nobody knows which version: nothing of it may be lost without a word."""
    lost = [] if code.schema_version == 1 else [name for name in sent if name not in code.state.model_fields]
    if lost:
        raise BadState(
            f"{code.state.__name__}{states.pointer(lost[0])} is unknown to this code (version {code.schema_version}); "
            "it was sent at the start, maybe to an older one",
            path=states.pointer(lost[0]),
        )
    return states.load(code.state, sent)


def _next(connection: sa.Connection, head: Row, code: Workflow, skipped: str, row: Row | None) -> Target | None:
    if row is not None and row.status == "waiting":  # it waits, or has failed because nobody answered
        return _behind_waits(connection, head)
    following = instead(code, skipped) if skipped in code.removed else code.following(_found(code, skipped))
    return None if following is None else following.target


def _behind_waits(connection: sa.Connection, head: Row) -> Target | None:
    """Where the branches, or the open waits, lead, or those that nobody answered in time; refused if they differ."""
    branches = connection.execute(sql.THEN_OF_BRANCHES, {"id": head.id, "seq": head.seq}).first()
    if branches is not None:
        return decode_target(branches.then_target)
    found = {row.name: decode_target(row.then_target) for row in connection.execute(sql.THEN, {"id": head.id})}
    targets = list(found.values())
    if any(target != targets[0] for target in targets):
        leads = ", ".join(f"{name} to {'the end' if t is None else t.step}" for name, t in found.items())
        message = f"its waits lead to different steps: {leads}. Say which one: to=, or --to STEP."
        raise NotSkippable(head.workflow, head.thread_id, message, status=head.status)
    return targets[0] if targets else None


def _found(code: Workflow, name: str) -> Step:
    """The step of this name, or the one that cases go on with if it was removed."""
    step = instead(code, name) if name in code.removed else code.find(name)
    if step is None:
        raise UnknownStep(f"{code.name!r} has no step {name!r}; the steps are {', '.join(code.steps)}")
    return step


def _state(connection: sa.Connection, head: Row, seq: int) -> states.JSON:
    row = connection.execute(reads.CHAIN, {"id": head.id, "seq": seq}).one()
    return state_of(connection.execute, head.id, row.chain, seq)
