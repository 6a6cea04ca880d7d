"""Start a case: once for each thread id, in a transaction of its own or in the caller's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError

from keepstep.checkpoint import codec
from keepstep.checkpoint.chain import link
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.sql import births
from keepstep.steps import state as states
from keepstep.steps.errors import BadState, CaseConflict, StartPending
from keepstep.steps.keys import case_id, check_thread_id
from keepstep.steps.workflow import Workflow

Input = Mapping[str, Any] | BaseModel

LOCK_TIMEOUT_MS = 5000


def start(
    db: Database,
    workflow: Workflow,
    thread_id: str,
    given: Input,
    *,
    max_state_bytes: int,
    connection: sa.Connection | None = None,
) -> tuple[Ring, bool]:
    """Store the case unless it exists. Returns the message for its first step, and whether the case is new.

    given: the state as JSON or as a model; what is *sent* is kept and compared, so that a new default in the model
    refuses nobody. Raises BadThreadId, BadState, CaseConflict (the thread id was started with another input), and
    StartPending (another transaction is starting it right now).
    """
    check_thread_id(thread_id)
    sent, payload = _read(workflow, thread_id, given, max_state_bytes)
    first = workflow.first.target
    ring = Ring.to(first, case=case_id(workflow.name, thread_id), seq=0, workflow=workflow.name, thread_id=thread_id)
    params = {
        "id": ring.case,
        "run": uuid4(),
        "workflow": workflow.name,
        "thread_id": thread_id,
        "input": codec.encode(sent),
        "retention": workflow.retention and workflow.retention.total_seconds(),
        "target": first.step,
        "queue": first.queue,
        "timeout": first.timeout,
        "in_doubt": first.in_doubt,
        "schema_version": workflow.schema_version,
        "payload": payload,
    }
    if connection is not None:
        return ring, _insert(connection, params, sent)
    with db.transaction() as own:
        own.execute(births.LOCK_TIMEOUT, {"milliseconds": str(LOCK_TIMEOUT_MS)})
        return ring, _insert(own, params, sent)


def _insert(connection: sa.Connection, params: dict[str, Any], sent: Any) -> bool:
    named = params["workflow"], params["thread_id"]
    try:
        if connection.execute(births.START, params).first() is not None:
            return True
    except OperationalError as error:
        if getattr(error.orig, "pgcode", None) != "55P03":  # lock_not_available
            raise
        raise StartPending(*named, "another transaction is starting it and hasn't ended. Try again.") from None
    row = connection.execute(births.INPUT_OF, {"id": params["id"]}).first()
    if row is None:
        raise StartPending(*named, "another transaction has just started or removed it. Try again.")
    if codec.encode(codec.decode(row.input)) != codec.encode(sent) and codec.decode(row.input) != sent:
        raise CaseConflict(
            *named, "it was started before with another input. Use another thread id, or send what was sent first."
        )
    return False


def _read(workflow: Workflow, thread_id: str, given: Input, max_bytes: int) -> tuple[Any, str]:
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
        return sent, link({}, state, 0, max_bytes=max_bytes, snapshot=True).payload
    except BadState as error:
        message = f"{workflow.name}/{thread_id} is not started: {error}"
        raise type(error)(message, path=error.path) from None
