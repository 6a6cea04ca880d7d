"""Workflows whose steps call several things outside, recorded."""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Call, Retry, Workflow
from tests.flows import wait_until
from tests.support import trace


class State(BaseModel):
    """seconds: how long the second call of `pay` takes on the first attempt."""

    seconds: float = 0.0
    receipts: list[Any] = []
    seen: Any = None


paying = Workflow("paying", state=State, retry=Retry(attempts=3, wait=wait_fixed(0.05)))


@paying.step
def pay(state: State, call: Call) -> Any:
    """Two effects in one step: each is made once, whatever happens between them."""

    def outside(what: str, idempotency_key: str) -> dict[str, Any]:
        trace.write(call.thread_id, what, idempotency_key, call.attempt)
        call.cost(usd=0.25)
        if what == "mail" and call.attempt == 1:
            wait_until(state.seconds)
        return {"what": what, "pid": os.getpid()}

    call.cost(tokens=10)
    charged = call.once("charge", outside, "charge", idempotency_key=call.key_of("charge"))
    mailed = call.once("mail", outside, "mail", idempotency_key=call.key_of("mail"))
    return {"receipts": [charged, mailed]}


careful_paying = Workflow("careful_paying", state=State)


@careful_paying.step(in_doubt="hold")
def pay_carefully(state: State, call: Call) -> Any:
    return {"seen": call.once("charge", lambda: 1)}


polite = Workflow("polite", state=State)


@polite.step
async def pay_politely(state: State, call: Call) -> Any:
    async def charge(amount: int) -> int:
        return amount

    return {"receipts": [await call.once_async("charge", charge, 7), call.once("mail", lambda: "sent")]}


long = Workflow("long", state=State, retry=Retry(attempts=3, wait=wait_fixed(0.05)))


@long.step
def count(state: State, call: Call) -> Any:
    """Goes on from where an earlier attempt said that it was."""
    done = (call.detail or {"rows": 0})["rows"]
    for row in range(done, 6):
        trace.write(call.thread_id, f"row {row}", call.key, call.attempt)
        call.heartbeat({"rows": row + 1})
        if row == 3 and call.attempt == 1:
            raise OSError("the line went dead")
    return {"seen": done}


ALL = [paying, careful_paying, polite, long]
