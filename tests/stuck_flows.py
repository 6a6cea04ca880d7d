"""A workflow whose answer's validation may stand still, in the middle of the transaction that delivers it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_validator

from keepstep import Call, Workflow, wait_for
from tests.support import trace

VARIABLE = "KEEPSTEP_TEST_STUCK"


class Answer(BaseModel):
    """What is asked for."""

    value: str

    @field_validator("value")
    @classmethod
    def stands_still(cls, value: str) -> str:
        """Once, if this process is told to: from the file's coming until its text is gone."""
        try:
            with Path(os.environ.get(VARIABLE, "")).open("x") as file:
                file.write("here")
        except OSError:  # nobody told it to, or somebody has been here
            return value
        while Path(file.name).read_text():
            time.sleep(0.005)
        return value


class State(BaseModel):
    """log: the steps that ran."""

    answer: Answer | None = None
    log: list[str] = []


asking = Workflow("asking", state=State)


def note(state: State, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    return {"log": [*state.log, call.step]}


@asking.step
def ask(state: State, call: Call) -> Any:
    return wait_for("answer", into="answer", payload=Answer, update=note(state, call))


@asking.step
def after(state: State, call: Call) -> Any:
    return note(state, call)


ALL = [asking]
