"""The workflow whose cases are kept. Frozen: what is in the files was written by it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from keepstep import Approval, Call, Retry, Workflow, sleep, wait_all, wait_for


class Line(BaseModel):
    name: str
    price: float


class State(BaseModel):
    """how: where the case comes to rest first."""

    how: str
    text: str = ""
    lines: list[Line] = []
    approval: Approval | None = None
    seen: str | None = None
    end: bool = False


golden = Workflow("golden", state=State, retention=timedelta(days=3650))


@golden.step
def grow(state: State, call: Call) -> dict[str, Any]:
    """A large value, so that what follows is written as deltas; and text that JSON has to escape."""
    size = 70_000 if state.how == "completed" else 3_000
    return {"text": "nul \0, umlaut ü, 日本 " + "x" * size, "lines": [{"name": "first", "price": 0.1}]}


@golden.step(retry=Retry(attempts=1))
def append(state: State, call: Call) -> dict[str, Any]:
    if state.how == "held":
        raise ValueError("nothing will help")
    receipt = call.once("book", lambda: {"receipt": 7})
    return {"lines": [*state.lines, Line(name=f"receipt {receipt['receipt']}", price=1e-7)]}


@golden.step
def rest(state: State, call: Call) -> Any:
    match state.how:
        case "waiting" | "early":
            return wait_for(
                "approval", into="approval", payload=Approval, prompt={"sum": 0.1}, timeout=timedelta(days=90)
            )
        case "votes":
            return wait_for("approval", into="approval", payload=Approval, approvers=2)
        case "both":
            return wait_all(wait_for("approval", into="approval", payload=Approval), wait_for("seen", into="seen"))
        case "sleeping":
            return sleep(timedelta(days=30))
        case "snapshot":
            return {"text": "short"}
    return None


@golden.step
def last(state: State, call: Call) -> dict[str, Any]:
    return {"end": True}
