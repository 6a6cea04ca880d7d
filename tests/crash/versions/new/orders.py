"""Version 2 of the same package: a field split, an answer that became an object, a step removed, renamed, inserted."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow, wait_for
from tests.support import trace


class Answer(BaseModel):
    yes: bool


class Order(BaseModel):
    given: str
    family: str
    ok: Answer | None = None
    log: list[str] = []


def act(state: Order, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    time.sleep(0.05)
    return {"log": [*state.log, f"2 {call.step}"]}


orders = Workflow("orders", state=Order, schema_version=2, removed={"fax": "ask"})


@orders.upcast(from_version=1)
def split_the_name(stored: dict[str, Any]) -> dict[str, Any]:
    stored["given"], _, stored["family"] = stored.pop("customer").partition(" ")
    if stored["ok"] is not None:
        stored["ok"] = {"yes": stored["ok"] == "yes"}
    return stored


@orders.upcast(from_version=1, signal="ok")
def an_object(stored: str) -> dict[str, Any]:
    return {"yes": stored == "yes"}


for _name in ("reserve", "price"):
    orders.step(act, name=_name)


@orders.step
def ask(state: Order, call: Call) -> Any:
    return wait_for("ok", into="ok", payload=Answer)


orders.step(act, name="charge")
orders.step(act, name="wrap")
orders.step(act, name="box", aliases=["pack"])
orders.step(act, name="send")
