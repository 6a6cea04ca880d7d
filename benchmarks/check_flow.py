"""The workflow of the cases that `keepstep check` looks at, in two versions."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from keepstep import Approval, Call, Workflow, fan_out, wait_for

VERSION = int(os.environ.get("CHECKED_VERSION", "1"))
STEPS = 10
"""That a case has behind it when it waits."""


class Item(BaseModel):
    """Of the fan-out."""

    number: int
    text: str


class State(BaseModel):
    """items: over which it fans out, instead of going through its steps."""

    blob: str = ""
    log: list[int] = []
    items: int = 0
    approval: Approval | None = None


checked = Workflow("checked", state=State, schema_version=VERSION)


@checked.step
def begin(state: State, call: Call) -> Any:
    if state.items:
        return fan_out("never", over=[Item(number=n, text=state.blob) for n in range(state.items)], max_running=1)
    return {"log": [*state.log, call.seq]}


for _number in range(1, STEPS):
    checked.step(lambda state, call: {"log": [*state.log, call.seq]}, name=f"n{_number}")


@checked.step
def ask(_state: State, _call: Call) -> Any:
    return wait_for("approval", into="approval", payload=Approval)


@checked.branch
def never(_item: Item, _call: Call) -> Any:
    return wait_for("never", into="result")


if VERSION > 1:

    @checked.upcast(from_version=1)
    def with_another_log(stored: dict[str, Any]) -> dict[str, Any]:
        return {**stored, "log": [number + 1 for number in stored["log"]]}

    @checked.upcast(from_version=1, item="never")
    def with_another_number(stored: dict[str, Any]) -> dict[str, Any]:
        return {**stored, "number": stored["number"] + 1}
