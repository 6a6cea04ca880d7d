"""A step whose call may be in doubt, and a verify that does what the case's state says."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Call, Done, NotDone, Retry, Unknown, Workflow
from tests.support import trace


class State(BaseModel):
    """raises, verdicts: what the first calls, and the first verifications, do."""

    raises: list[str] = []
    verdicts: list[str] = []
    receipt: str = ""


def act(what: str) -> Any:
    match what:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise OSError("no answer came")
        case "hang":
            time.sleep(60)
        case "unknown":
            return Unknown
        case "not done":
            return NotDone
        case "lie":
            return Done({"receipt": "made up"})
    return Done({"receipt": "found"})


def nth(call: Call, step: str, whats: list[str], default: str) -> str:
    """What the next of these calls is to do. One line in the trace for each."""
    trace.write(call.thread_id, step, call.key, call.attempt)
    before = len(trace.Trace(trace.path()).lines(call.thread_id, step)) - 1
    return whats[before] if before < len(whats) else default


def verify(state: State, call: Call) -> Any:
    return act(nth(call, "verify", state.verdicts, "done"))


def pay_once(state: State, call: Call) -> Any:
    act(nth(call, "pay", state.raises, ""))
    return {"receipt": "paid"}


verified = Workflow("verified", state=State, retry=Retry(attempts=3, wait=wait_fixed(0.1)))
verified.step(name="pay", in_doubt=verify)(pay_once)
verified.step(name="end")(lambda state, call: None)

held = Workflow("held", state=State)
held.step(name="pay", in_doubt="hold")(pay_once)
held.step(name="end")(lambda state, call: None)

ALL = [verified, held]
