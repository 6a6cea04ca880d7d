"""Run a step's own code, and turn whatever it does into a result. Nothing is held meanwhile: no lock, no connection."""

from __future__ import annotations

import inspect

from billiard.exceptions import SoftTimeLimitExceeded
from celery.exceptions import WorkerShutdown, WorkerTerminate
from pydantic import BaseModel

from keepstep.config.logs import about_case
from keepstep.steps.call import Call
from keepstep.steps.decide import Raised, Result, Returned, TimedOut
from keepstep.steps.step import StepFunction
from keepstep.workers import loop
from keepstep.workers.interrupt import interruptible, is_ending


class Interrupted(Exception):
    """The step is not to go on; the case goes back, and nobody is to blame.

    begun: its code was entered. Then the worker is told to end; else it may also be that the time of its message was
    over before it could begin.
    """

    def __init__(self, *, begun: bool):
        super().__init__("the worker is told to end, or its time was over before it began")
        self.begun = begun


def call_step(function: StepFunction, state: BaseModel, call: Call, timeout: float) -> Result:
    """Call the function with its copy of the state. Whatever it raises becomes a result too, `sys.exit()` included.

    Raises Interrupted when this worker is told to end meanwhile, or the time was over before.
    """
    begun = False
    try:
        about = about_case(
            workflow=call.workflow, thread_id=call.thread_id, step=call.step, seq=call.seq, attempt=call.attempt
        )
        with about, interruptible():
            begun = True
            value = function(state, call)
            if inspect.isawaitable(value):
                value = loop.run(value)
    except SoftTimeLimitExceeded:
        if not begun:
            raise Interrupted(begun=False) from None
        return TimedOut(timeout=timeout)
    except BaseException as error:  # a cancelled asyncio task, a panic of a foreign library: still only a failed step
        if is_ending(error) or isinstance(error, WorkerShutdown | WorkerTerminate):
            raise Interrupted(begun=begun) from error
        call.log.warning("%s: %s", type(error).__name__, error, exc_info=error)
        return Raised(error=error)
    return Returned(value=value, copy=state)
