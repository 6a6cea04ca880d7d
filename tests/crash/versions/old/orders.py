"""Version 1 of a package of workflows, as it is deployed at first."""

from __future__ import annotations

import time
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow, wait_for
from tests.support import trace


class Order(BaseModel):
    customer: str
    ok: str | None = None
    log: list[str] = []


def act(state: Order, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    time.sleep(0.05)
    return {"log": [*state.log, f"1 {call.step}"]}


orders = Workflow("orders", state=Order, schema_version=1)
for _name in ("reserve", "price", "fax"):
    orders.step(act, name=_name)


@orders.step
def ask(state: Order, call: Call) -> Any:
    return wait_for("ok", into="ok")


for _name in ("charge", "pack", "send"):
    orders.step(act, name=_name)
