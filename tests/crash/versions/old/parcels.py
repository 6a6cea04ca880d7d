"""Version 1 of a package that fans out: an item is a text, a result a number."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow, fan_out, wait_for
from tests.support import trace


class Parcels(BaseModel):
    at_once: int = 1
    contents: list[str] = ["ask", "bb", "ccc", "dddd"]
    weights: list[int] = []
    log: list[str] = []


parcels = Workflow("parcels", state=Parcels, schema_version=1)


@parcels.step
def begin(state: Parcels, call: Call) -> Any:
    return fan_out("weigh", over=state.contents, into="weights", max_running=state.at_once)


@parcels.branch
def weigh(item: str, call: Call) -> Any:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    time.sleep(0.05)
    return wait_for("go", into="result") if item == "ask" else len(item)


@parcels.step
def send(state: Parcels, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    return {"log": [*state.log, "1 send"]}
