"""A call for the test of one step, without a database: the step is called as an ordinary function."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from keepstep.config.logs import case_logger
from keepstep.steps.call import Call
from keepstep.steps.keys import case_id

_RUN = UUID("0b1f6a64-6f0e-5d8e-9c55-0f6a5d0d7c11")


def fake_call(
    workflow: str = "workflow",
    thread_id: str = "T-1",
    step: str = "step",
    *,
    seq: int = 0,
    attempt: int = 1,
    deadline: datetime | None = None,
    detail: Any = None,
    connection: Any = None,
    cancelled: bool = False,
) -> Call:
    """A `Call` as a step gets it, but nothing is recorded: `once` calls at once, `heartbeat` checks its detail only.

    The keys are made as in production, from a run that is always the same: equal arguments give equal keys.
    deadline: by default in an hour. detail: what the last heartbeat of an earlier attempt said. connection: what a
    transactional step writes to. cancelled: what `call.cancelled()` says. Afterwards `call.key_read` tells whether
    the step asked for its key, and `call.spent` what it said it had spent.
    """
    run = uuid5(_RUN, str(case_id(workflow, thread_id)))
    return Call(
        workflow=workflow,
        thread_id=thread_id,
        step=step,
        seq=seq,
        attempt=attempt,
        deadline=datetime.now(UTC) + timedelta(hours=1) if deadline is None else deadline,
        log=case_logger(workflow, thread_id, step, seq),
        detail=detail,
        _run=run,
        _connection=connection,
        _is_cancelled=lambda: cancelled,
    )
