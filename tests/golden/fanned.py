"""Workflows whose open fan-outs are kept. Frozen, as `flow.py` is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from keepstep import Call, Workflow, fail, fan_out, finish, start_child, wait_for


class State(BaseModel):
    """how: where the case comes to rest first."""

    how: str
    words: list[str] = ["wait", "nul \0", "日本"]
    lengths: list[int] = []
    named: dict[str, Any] = {}
    child: dict[str, Any] | None = None
    end: bool = False


class Small(BaseModel):
    n: int
    seen: str | None = None


fanned = Workflow("fanned", state=State, retention=timedelta(days=3650))
small = Workflow("small", state=Small)


@small.step
def ask(state: Small, call: Call) -> Any:
    return wait_for("seen", into="seen")


@fanned.step
def spread(state: State, call: Call) -> Any:
    """One at a time: while the first waits, the others are only a list."""
    return fan_out("length", over=state.words, into="lengths", max_running=1)


@fanned.step
def by_name(state: State, call: Call) -> Any:
    branches = {"one": ("length", "x"), "bad": ("fails", 1), "whole": "whole"}
    return fan_out(branches, into="named", on_error="collect")


@fanned.step
def begin_child(state: State, call: Call) -> Any:
    return start_child(small, {"n": 1}, into="child")


@fanned.step
def last(state: State, call: Call) -> Any:
    return finish(end=True)


@fanned.branch
def length(item: str, call: Call) -> Any:
    return wait_for("go", into="result") if item == "wait" else len(item)


@fanned.branch
def fails(item: int, call: Call) -> Any:
    return fail("as it was told")


@fanned.branch
def whole(state: State, call: Call) -> str:
    return state.how
