"""The workflows of the measurements: steps that do nothing but wait, with a state that is carried along."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow, finish, goto

DECLARED = 40
"""Steps that the workflows have; a longer case goes round."""


class Carried(BaseModel):
    """steps: of this case. seconds: that each waits. blob: as large as a real state. log: one small value a step."""

    steps: int = DECLARED
    seconds: float = 0.0
    blob: str = ""
    log: list[int] = []


work = Workflow("work", state=Carried)
awaited = Workflow("awaited", state=Carried)


def _step(number: int) -> None:
    @work.step(name=f"n{number}")
    def step(state: Carried, _call: Call) -> Any:
        if state.seconds:
            time.sleep(state.seconds)
        return _after(state, number)

    @awaited.step(name=f"n{number}")
    async def awaiting(state: Carried, _call: Call) -> Any:
        await asyncio.sleep(state.seconds)
        return _after(state, number)


def _after(state: Carried, number: int) -> Any:
    changes = {"log": [*state.log, number % 10]}
    if len(changes["log"]) >= state.steps:
        return finish(**changes)
    return goto("n1", **changes) if number == DECLARED else changes


for _number in range(1, DECLARED + 1):
    _step(_number)

ALL = [work, awaited]
