"""Version 2 of the same package: items and results became objects, and the branch step was renamed."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow, fan_out, wait_for
from tests.support import trace


class Content(BaseModel):
    name: str


class Weight(BaseModel):
    grams: int


class Parcels(BaseModel):
    at_once: int = 1
    contents: list[Content] = [Content(name=name) for name in ("ask", "bb", "ccc", "dddd")]
    weights: list[Weight] = []
    log: list[str] = []


parcels = Workflow("parcels", state=Parcels, schema_version=2)


@parcels.step
def begin(state: Parcels, call: Call) -> Any:
    return fan_out("scale", over=state.contents, into="weights", max_running=state.at_once)


@parcels.branch(aliases=["weigh"])
def scale(item: Content, call: Call) -> Any:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    time.sleep(0.05)
    return wait_for("go", into="result") if item.name == "ask" else Weight(grams=len(item.name))


@parcels.step
def send(state: Parcels, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    return {"log": [*state.log, "2 send"]}


@parcels.upcast(from_version=1, item="scale")
def an_object(stored: str) -> dict[str, Any]:
    return {"name": stored}


@parcels.upcast(from_version=1, result="scale")
def in_grams(stored: int) -> dict[str, Any]:
    return {"grams": stored}


@parcels.upcast(from_version=1)
def both(stored: dict[str, Any]) -> dict[str, Any]:
    stored["contents"] = [an_object(one) for one in stored["contents"]]
    stored["weights"] = [in_grams(one) for one in stored["weights"]]
    return stored
