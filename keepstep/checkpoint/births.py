"""Start cases: once for each thread id, in transactions of their own or in the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from pydantic import BaseModel

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import keep
from keepstep.checkpoint.chain import Link, link
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.lent import LOCK_NOT_AVAILABLE, Lent, lent, sqlstate
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sql import births
from keepstep.steps import state as states
from keepstep.steps.errors import BadState, CaseConflict, CaseError, CaseExists, DatabaseUnavailable, StartPending
from keepstep.steps.keys import case_id, check_thread_id
from keepstep.steps.sameness import same
from keepstep.steps.step import Target
from keepstep.steps.terms import Terms
from keepstep.steps.workflow import Workflow

Input = Mapping[str, Any] | BaseModel

LOCK_TIMEOUT_MS = 5000
BATCH = 1000
"""Cases that one statement starts."""

ONLY_ENDED = "it hasn't ended, and a start restarts only a case that has. See: restart."

DEFAULT_TERMS = Terms()


@dataclass(frozen=True, kw_only=True)
class Birth:
    """What became of one start. ring: the message for the first step, None if it isn't to be sent now.

    error: why it is refused: the thread id is taken. restart_with: it is taken by a case that has ended, to be
    restarted with this input.
    """

    id: UUID
    thread_id: str
    new: bool = False
    ring: Ring | None = None
    error: CaseError | None = None
    restart_with: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class _Planned:
    id: UUID
    run: UUID
    thread_id: str
    sent: Any
    input: str
    first: Link


def start(
    db: Database,
    workflow: Workflow,
    thread_id: str,
    given: Input,
    *,
    max_state_bytes: int,
    terms: Terms = DEFAULT_TERMS,
    connection: Any = None,
) -> Birth:
    """Store one case unless it exists.

    given: the state as JSON or as a model; what is *sent* is kept and compared, so that a new default in the model
    refuses nobody. Raises BadThreadId, BadState, CaseConflict (the thread id was started with another input),
    CaseExists, and StartPending (another transaction is starting it right now).
    """
    [birth] = start_many(
        db, workflow, [(thread_id, given)], max_state_bytes=max_state_bytes, terms=terms, connection=connection
    )
    if birth.error is not None:
        raise birth.error
    return birth


def start_many(
    db: Database,
    workflow: Workflow,
    given: Iterable[tuple[str, Input]],
    *,
    max_state_bytes: int,
    terms: Terms = DEFAULT_TERMS,
    connection: Any = None,
) -> list[Birth]:
    """Store the cases that don't exist, in the order given, by statements of BATCH rows.

    All inputs are checked before anything is written. Each statement is a transaction of its own, all or nothing,
    unless a connection is lent. A thread id that is taken is an `error` in the result, and keeps no other.
    """
    planned = [_plan(workflow, thread_id, state, max_state_bytes) for thread_id, state in given]
    common = _common(workflow, terms)
    theirs = None if connection is None else lent(connection)
    in_order = sorted(planned, key=lambda case: case.id)  # lock order: two starts of many never wait for each other
    done: dict[UUID, Birth] = {}
    for begin in range(0, len(in_order), BATCH):
        some = in_order[begin : begin + BATCH]
        if theirs is not None:
            done |= _insert(theirs, workflow, some, common | {"lent": True}, terms)
            continue
        done |= _insert_by_itself(db, workflow, some, common | {"patience": str(LOCK_TIMEOUT_MS)}, terms)
    return [done[case.run] for case in planned]


def _plan(workflow: Workflow, thread_id: str, given: Input, max_bytes: int) -> _Planned:
    check_thread_id(thread_id)
    sent, first = _read(workflow, thread_id, given, max_bytes)
    key = case_id(workflow.name, thread_id)
    return _Planned(id=key, run=uuid4(), thread_id=thread_id, sent=sent, input=codec.encode(sent), first=first)


def _common(workflow: Workflow, terms: Terms) -> dict[str, Any]:
    first = _first(workflow, terms)
    return {
        "workflow": workflow.name,
        **of_a_case(workflow),
        "tags": codec.encode_or_none(terms.tags),
        "status": "queued" if terms.delay is None else "sleeping",
        "target": first.step,
        "queue": first.queue,
        "timeout": first.timeout,
        "in_doubt": first.in_doubt,
        "heartbeat_timeout": first.heartbeat_timeout,
        "schema_version": workflow.schema_version,
        "delay": terms.delay,
        "pinned_queue": terms.queue,
        "priority": terms.priority,
        "lent": False,
        "patience": None,
    }


def of_a_case(workflow: Workflow) -> dict[str, Any]:
    """What a case keeps of its workflow as it begins: its retention, its secrets, and the events that have hooks."""
    return {
        "retention": codec.encode_or_none(workflow.kept_for or None),
        "secrets": list(workflow.secrets) or None,
        "hooks": sorted(workflow.hooks) or None,
    }


def _first(workflow: Workflow, terms: Terms) -> Target:
    first = workflow.first.target
    return first if terms.queue is None else replace(first, queue=terms.queue)


def _insert_by_itself(
    db: Database, workflow: Workflow, cases: Sequence[_Planned], common: dict[str, Any], terms: Terms
) -> dict[UUID, Birth]:
    """In a transaction of its own: one statement, unless there are large values.

    A connection that has ended since it was last used isn't tried before, which would cost a round trip: the statement
    is repeated on one that is. If it was carried out after all, it knows its own cases by their runs.
    """
    if any(case.first.blobs for case in cases):
        with db.transaction() as own:
            return _insert(lent(own), workflow, cases, common, terms)
    try:
        with db.connect(untried=True) as own:
            return _insert(lent(own), workflow, cases, common, terms)
    except DatabaseUnavailable as error:
        if not error.lost:
            raise
    with db.connect() as own:
        return _insert(lent(own), workflow, cases, common, terms)


def _insert(
    connection: Lent, workflow: Workflow, cases: Sequence[_Planned], common: dict[str, Any], terms: Terms
) -> dict[UUID, Birth]:
    """What became of each, by run."""
    rows = {
        "ids": [case.id for case in cases],
        "runs": [case.run for case in cases],
        "thread_ids": [case.thread_id for case in cases],
        "inputs": [case.input for case in cases],
        "payloads": [case.first.payload for case in cases],
    }
    try:
        new = {row.run for row in connection.rows(births.START, common | rows)}
    except Exception as error:  # each driver has a class of its own
        if sqlstate(error) != LOCK_NOT_AVAILABLE:
            raise
        which = cases[0].thread_id if len(cases) == 1 else f"one of {len(cases)} thread ids"
        why = "another transaction is starting it and hasn't ended. Try again."
        raise StartPending(workflow.name, which, why) from None
    for case in cases:
        if case.run in new:
            keep(connection.rows, case.id, case.first.blobs)
    taken = [case for case in cases if case.run not in new]
    there = {row.id: row for row in connection.rows(births.INPUTS_OF, {"ids": [c.id for c in taken]})} if taken else {}
    new |= {row.run for row in there.values()} & {case.run for case in taken}  # its reply was lost, and it is repeated
    return {
        case.run: _born(workflow, case, terms) if case.run in new else _found(workflow, case, there.get(case.id), terms)
        for case in cases
    }


def _born(workflow: Workflow, case: _Planned, terms: Terms) -> Birth:
    names = {"workflow": workflow.name, "thread_id": case.thread_id}
    ring = Ring.to(_first(workflow, terms), case=case.id, seq=0, priority=terms.priority, **names)
    return Birth(id=case.id, thread_id=case.thread_id, new=True, ring=ring if terms.delay is None else None)


def _found(workflow: Workflow, case: _Planned, row: Any, terms: Terms) -> Birth:
    """The thread id is taken: by the same case, by one that may be restarted, or it is refused."""
    named = workflow.name, case.thread_id
    error: CaseError | None = None
    if row is None:
        error = StartPending(*named, "another transaction has just started or removed it. Try again.")
    elif terms.if_exists == "restart" and row.ended:
        return Birth(id=case.id, thread_id=case.thread_id, restart_with=case.sent)
    elif terms.if_exists == "restart":
        error = CaseExists(*named, ONLY_ENDED)
    elif terms.if_exists == "raise":
        error = CaseExists(*named, "it was started before. Use another thread id, or if_exists='return'.")
    elif not same(codec.decode(row.input), codec.decode(case.input)):
        error = CaseConflict(
            *named, "it was started before with another input. Use another thread id, or send what was sent first."
        )
    return Birth(id=case.id, thread_id=case.thread_id, error=error)


def _read(workflow: Workflow, thread_id: str, given: Input, max_bytes: int) -> tuple[Any, Link]:
    """What was sent, as JSON, and the first snapshot that it makes."""
    try:
        if isinstance(given, BaseModel):
            if not isinstance(given, workflow.state):
                raise BadState(f"a {type(given).__name__} was given, the state is a {workflow.state.__name__}")
            state = states.dump(given)
            sent = {name: state[name] for name in given.model_fields_set if name in state}
        else:
            sent = dict(given)
            states.refuse_what_json_lacks(sent, workflow.state.__name__)
            state = states.dump(states.load(workflow.state, sent))
        return sent, link({}, state, 0, max_bytes=max_bytes, snapshot=True)
    except BadState as error:
        message = f"{workflow.name}/{thread_id} is not started: {error}"
        raise type(error)(message, path=error.path) from None
