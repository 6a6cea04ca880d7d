"""A workflow whose steps either compute or wait, for the choice of a pool."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow

STEPS = 10


class Given(BaseModel):
    """milliseconds: of a step. computes: it uses the CPU for so long, else it waits."""

    milliseconds: int = 0
    computes: bool = False
    done: int = 0


flow = Workflow("pools", state=Given)


def _step(number: int) -> None:
    @flow.step(name=f"n{number}")
    def step(state: Given, _call: Call) -> Any:
        if state.computes:
            compute(state.milliseconds / 1000)
        else:
            time.sleep(state.milliseconds / 1000)
        return {"done": number}


def compute(seconds: float) -> None:
    """Use so much CPU time of this thread, in pure Python, holding the interpreter's lock as such code does."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))


for _number in range(1, STEPS + 1):
    _step(_number)

ALL = [flow]
