"""An operator's verbs: each is one transaction, guarded by the table of moves, and noted in the audit table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from keepstep.checkpoint import codec, logs
from keepstep.checkpoint.births import LOCK_TIMEOUT_MS, ONLY_ENDED, of_a_case
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.lent import LOCK_NOT_AVAILABLE, sqlstate
from keepstep.checkpoint.places import after, first, here, revived, same, there
from keepstep.checkpoint.sql import births, branches, hooks, reads
from keepstep.checkpoint.sql import steering as sql
from keepstep.checkpoint.steered import (
    Order,
    Steered,
    audit,
    check,
    effects_since,
    end,
    leave_behind,
    put,
    reopen,
    revive,
    steer,
    steered_now,
    write,
)
from keepstep.steps import errors
from keepstep.steps.keys import case_id, check_thread_id
from keepstep.steps.terms import Terms
from keepstep.steps.workflow import Workflow

NOTHING = -1
"""The seq before all: a restart lets nothing of the past stand."""

Code = Callable[[], Workflow]
"""The workflow's definition, asked for only by the verbs that need it; UnknownWorkflow if it isn't loaded."""


def cancel(db: Database, workflow: str, thread_id: str, order: Order) -> Steered:
    """End the case as cancelled, whatever it is doing. Raises UnknownCase, NotCancellable."""

    def act(connection: sa.Connection, head: Row) -> None:
        end(connection, head, "cancel")
        said = codec.encode({"actor": order.actor, "reason": order.reason})
        connection.execute(hooks.SAY_WHO, {"id": head.id, "detail": said})

    return steer(db, workflow, thread_id, "cancel", order, act)


def pause(db: Database, workflow: str, thread_id: str, order: Order) -> Steered:
    """Let what runs end, and nothing begin. Raises UnknownCase, NotPausable."""

    def act(connection: sa.Connection, head: Row) -> None:
        connection.execute(sql.PAUSE, {"id": head.id})

    return steer(db, workflow, thread_id, "pause", order, act)


def resume(db: Database, workflow: str, thread_id: str, order: Order) -> Steered:
    """End a pause. Raises UnknownCase, NotResumable."""

    def act(connection: sa.Connection, head: Row) -> None:
        connection.execute(sql.RESUME, {"id": head.id})

    return steer(db, workflow, thread_id, "resume", order, act)


def retry(db: Database, workflow: str, thread_id: str, order: Order, code: Code) -> Steered:
    """Run the step of a held or failed case again, under the same key. Raises UnknownCase, NotRetryable.

    One that is held because its branches' results don't fit gathers them again. A failed case needs its code:
    UnknownWorkflow, UnknownStep.
    """

    def act(connection: sa.Connection, head: Row) -> None:
        if connection.execute(branches.GATHER_AGAIN, {"id": head.id, "seq": head.seq}).rowcount:
            return
        if not head.live:
            revive(connection, head, "retry", revived(connection, head, code()))
        connection.execute(sql.RETRY, {"id": head.id})

    return steer(db, workflow, thread_id, "retry", order, act)


def retry_anew(
    db: Database, workflow: str, thread_id: str, order: Order, code: Code, *, max_state_bytes: int
) -> Steered:
    """Run the step of a held or failed case again under a new key. Raises as `retry`, and EffectsWouldRepeat."""

    def act(connection: sa.Connection, head: Row) -> list[str]:
        effects = effects_since(connection, head, "retry --new-key", order, head.seq)
        place = same(connection, head, code)
        put(connection, head, "retry_anew", place, kind="rewind", by="retry", max_bytes=max_state_bytes)
        return effects

    return steer(db, workflow, thread_id, "retry_anew", order, act)


def skip(
    db: Database,
    workflow: str,
    thread_id: str,
    order: Order,
    code: Workflow,
    *,
    update: Mapping[str, Any],
    to: str | None,
    max_state_bytes: int,
) -> Steered:
    """Go on behind the step, or the wait, that the case stands at, with this change of the state.

    to: the step to go on with, instead of the next. Raises UnknownCase, NotSkippable, UnknownStep, BadState,
    NewerState.
    """

    def act(connection: sa.Connection, head: Row) -> None:
        step, place = after(connection, head, code, update, to)
        if place.target is not None:
            put(connection, head, "skip", place, kind="skip", by=step, max_bytes=max_state_bytes)
            return
        if not head.live:  # any step will do: the head goes at once
            revive(connection, head, "skip", replace(place, target=code.first.target))
        end(connection, head, "skip")
        write(connection, head.id, head.seq + 1, place, kind="skip", by=step, max_bytes=max_state_bytes)

    return steer(db, workflow, thread_id, "skip", order, act)


def rewind(
    db: Database, workflow: str, thread_id: str, order: Order, code: Workflow, *, to: int, max_state_bytes: int
) -> Steered:
    """Go on from checkpoint `to`, by a new checkpoint; the past stays.

    Raises UnknownCase, NotRewindable, UnknownStep, EffectsWouldRepeat.
    """

    def act(connection: sa.Connection, head: Row) -> list[str]:
        place = there(connection, head, code, to, errors.NotRewindable)
        effects = effects_since(connection, head, f"rewind to {to}", order, to)
        leave_behind(connection, head, to)
        seq = put(connection, head, "rewind", place, kind="rewind", by="rewind", back_to=to, max_bytes=max_state_bytes)
        if place.status == "waiting":
            reopen(connection, head.id, head.id, to, seq)
        return effects

    return steer(db, workflow, thread_id, "rewind", order, act, {"to": to})


def restart(
    db: Database,
    workflow: str,
    thread_id: str,
    order: Order,
    code: Workflow,
    *,
    sent: Mapping[str, Any] | None = None,
    only_ended: bool = False,
    terms: Terms | None = None,
    max_state_bytes: int,
) -> Steered:
    """Begin again with what was sent at the start, or with `sent`, as a new run, under today's code.

    only_ended: refuse to restart a live case. terms: tags, priority and queue from now on. Raises UnknownCase,
    BadState, EffectsWouldRepeat, CaseExists.
    """

    def act(connection: sa.Connection, head: Row) -> list[str]:
        if only_ended and head.live:
            raise errors.CaseExists(workflow, thread_id, ONLY_ENDED)
        place = first(connection, head, code, sent)
        effects = effects_since(connection, head, "restart", order, 0)
        leave_behind(connection, head, NOTHING)
        new = {"id": head.id, "run": uuid4(), "input": None if sent is None else codec.encode(dict(sent))}
        connection.execute(sql.RENEW_RUN, new | of_a_case(code))
        put(
            connection,
            head,
            "restart",
            place,
            kind="rewind",
            by="restart",
            back_to=NOTHING,
            max_bytes=max_state_bytes,
        )
        if terms is not None:
            tags = codec.encode_or_none(terms.tags)
            renewed = {"id": head.id, "tags": tags, "queue": terms.queue, "priority": terms.priority}
            connection.execute(births.RENEW_TERMS, renewed)
        return effects

    return steer(db, workflow, thread_id, "restart", order, act)


def fork(
    db: Database,
    workflow: str,
    thread_id: str,
    order: Order,
    code: Workflow,
    *,
    at: int,
    new_thread_id: str,
    max_state_bytes: int,
) -> Steered:
    """Start another case from checkpoint `at` of this one, which stays as it is.

    Raises UnknownCase, NotForkable, UnknownStep, BadThreadId, CaseConflict (the new thread id is taken), StartPending,
    EffectsWouldRepeat.
    """
    check(order)
    source, case = case_id(workflow, thread_id), case_id(workflow, check_thread_id(new_thread_id))
    with db.transaction() as connection:
        row = connection.execute(reads.CASE, {"id": source}).first()
        if row is None:
            raise errors.UnknownCase(workflow, thread_id)
        place = there(connection, row, code, at, errors.NotForkable)
        effects = effects_since(connection, row, f"fork at {at}", order, at)
        _bear(connection, row, case, new_thread_id)
        connection.execute(sql.FORK_HEAD, {"id": case, "source": source, **here(place)})
        logs.copy(connection, place.state, source, case)
        write(connection, case, 0, place, kind="fork", by="fork", max_bytes=max_state_bytes)
        if place.status == "waiting":
            reopen(connection, source, case, at, 0)
        audit(connection, source, "fork", order, {"at": at, "as": new_thread_id, "effects": effects})
        audit(connection, case, "fork", order, {"at": at, "from": thread_id, "effects": effects})
        return steered_now(connection, case, effects)


def _bear(connection: sa.Connection, source: Row, case: UUID, thread_id: str) -> None:
    born = {"id": case, "source": source.id, "run": uuid4(), "thread_id": thread_id}
    try:
        connection.execute(births.LOCK_TIMEOUT, {"milliseconds": str(LOCK_TIMEOUT_MS)})
        if connection.execute(sql.FORK_CASE, born).first() is not None:
            return
    except sa.exc.OperationalError as error:
        if sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        message = "another transaction is starting it and hasn't ended. Try again."
        raise errors.StartPending(source.workflow, thread_id, message) from None
    if connection.execute(sql.KNOWN, {"id": source.id}).first() is None:  # its retention has just ended
        raise errors.UnknownCase(source.workflow, source.thread_id)
    raise errors.CaseConflict(source.workflow, thread_id, "it is taken. Give the fork another thread id.")
