"""Quick steps, one of which each case may make slow, or wrong, or last for ever."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Call, Retry, Workflow
from tests.support import trace


class State(BaseModel):
    """how: what the fourth step does: nothing, "raise" once, "sleep" or "hang". log: the steps that ran."""

    how: str = ""
    seconds: float = 0.0
    log: list[str] = []


crowd = Workflow("crowd", state=State, retry=Retry(attempts=3, wait=wait_fixed(0.1)))


def _plain(name: str) -> None:
    @crowd.step(name=name, timeout=timedelta(seconds=2))
    def plain(state: State, call: Call) -> dict[str, Any]:
        trace.write(call.thread_id, call.step, call.key, call.attempt)
        if name == "s4":
            behave(state, call)
        return {"log": [*state.log, name]}


def behave(state: State, call: Call) -> None:
    match state.how:
        case "raise" if call.attempt == 1:
            raise RuntimeError("not this time")
        case "sleep":
            time.sleep(state.seconds)
        case "hang" if call.attempt == 1:
            time.sleep(60)


NAMES = [f"s{number}" for number in range(1, 7)]
for _name in NAMES:
    _plain(_name)

naps = Workflow("naps", state=State)


@naps.step(timeout=timedelta(seconds=2))
def nap(state: State, call: Call) -> dict[str, Any]:
    time.sleep(0.05)
    return {}


hall = Workflow("hall", state=State)


@hall.step(timeout=timedelta(seconds=60))
def stay(state: State, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    trace.stand_at_gate()
    return {}


choir = Workflow("choir", state=State)


@choir.step
def sing(state: State, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    behave(state, call)
    return {}


ALL = [crowd, naps, hall, choir]
