"""Run a step's own code, and turn whatever it does into a result. Nothing is held meanwhile: no lock, no connection."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from uuid import UUID

from billiard.exceptions import SoftTimeLimitExceeded
from celery.exceptions import WorkerShutdown, WorkerTerminate
from pydantic import BaseModel

from keepstep.checkpoint.claims import Claim, still_held
from keepstep.checkpoint.database import Database
from keepstep.config.logs import case_logger
from keepstep.steps.call import Call
from keepstep.steps.decide import Raised, Result, Returned, TimedOut
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.steps.keys import idempotency_key
from keepstep.steps.workflow import Step
from keepstep.workers.interrupt import interruptible, is_ending

ASK_SECONDS = 0.25
"""How often `call.cancelled()` asks PostgreSQL at the most, however often it is called."""


class Interrupted(Exception):
    """The worker ends while the step runs; the case goes back, and nobody is to blame."""


def call_step(step: Step, state: BaseModel, claim: Claim, db: Database) -> Result:
    """Call the function with its copy of the state. Whatever it raises becomes a result too, `sys.exit()` included.

    Raises Interrupted when this worker is told to end meanwhile.
    """
    call = make_call(claim, db)
    try:
        with interruptible():
            value = step.function(state, call)
            if inspect.isawaitable(value):
                value = asyncio.run(_awaited(value))
    except SoftTimeLimitExceeded:
        return TimedOut(timeout=claim.timeout)
    except BaseException as error:  # a cancelled asyncio task, a panic of a foreign library: still only a failed step
        if is_ending(error) or isinstance(error, WorkerShutdown | WorkerTerminate):
            raise Interrupted from error
        call.log.warning("%s: %s", type(error).__name__, error, exc_info=error)
        return Raised(error=error)
    return Returned(value=value, copy=state)


def make_call(claim: Claim, db: Database) -> Call:
    """What the step is told about its call. db: asked, when the step asks, whether it is still wanted."""
    key: UUID = idempotency_key(claim.run, claim.delivery.seq, claim.step)
    return Call(
        workflow=claim.workflow,
        thread_id=claim.thread_id,
        step=claim.step,
        seq=claim.delivery.seq,
        attempt=claim.attempt,
        deadline=claim.deadline,
        log=case_logger(claim.workflow, claim.thread_id, claim.step, claim.delivery.seq),
        _key=key,
        _is_cancelled=_asking(claim, db),
    )


def _asking(claim: Claim, db: Database) -> Callable[[], bool]:
    """Whether the attempt has lost its lease, asked now and then."""
    last = {"cancelled": False, "at": float("-inf")}

    def is_cancelled() -> bool:
        if time.monotonic() - last["at"] >= ASK_SECONDS:
            try:
                last["cancelled"] = not still_held(db, claim)
            except DatabaseUnavailable:
                last["cancelled"] = False
            last["at"] = time.monotonic()
        return bool(last["cancelled"])

    return is_cancelled


async def _awaited(value: object) -> object:
    return await value  # type: ignore[misc]
