"""Workflows that fan out, for the tests and for the workers that they start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import BranchResult, Call, Retry, Workflow, fail, fan_out, finish, goto, start_child, wait_for
from tests.support import trace


class Item(BaseModel):
    """What a branch works on. does: what becomes of it."""

    n: int
    does: str = "double"
    text: Any = None


class State(BaseModel):
    """over: the items. how: of the fan-out. rounds: how often it is to be gone through."""

    over: list[Any] = []
    how: dict[str, Any] = {}
    results: Any = None
    collected: list[BranchResult[int]] = []
    numbers: list[int] = []
    rounds: int = 1
    log: list[str] = []


fanning = Workflow("fanning", state=State, retention=timedelta(days=1), retry=Retry(attempts=2, wait=wait_fixed(0.05)))


def note(call: Call) -> None:
    trace.write(call.thread_id, call.step, call.key, call.attempt)


@fanning.step
def begin(state: State, call: Call) -> Any:
    note(call)
    return fan_out("work", over=state.over, **{"into": "results", **state.how}, update={"log": [*state.log, "begin"]})


@fanning.step
def after(state: State, call: Call) -> Any:
    note(call)
    if state.rounds > 1:
        return goto("begin", rounds=state.rounds - 1, log=[*state.log, "after"])
    return finish(log=[*state.log, "after"])


@fanning.branch
def work(item: Item, call: Call) -> Any:
    note(call)
    if item.does == "fail":
        return fail(f"{item.n} can't be done")
    if item.does == "raise":
        raise OSError("the API is down")
    if item.does == "ask":
        return wait_for("answer", into="result")
    if item.does == "nest":
        return fan_out("work", over=[Item(n=item.n), Item(n=item.n + 1)], into="result")
    if item.does == "say":
        return "words"
    if item.does == "echo":
        return item.text
    return item.n * 2


class Small(BaseModel):
    """Of the child workflow."""

    n: int
    square: int = 0


child = Workflow("child", state=Small)


@child.step
def square(state: Small, call: Call) -> Any:
    note(call)
    return {"square": state.n * state.n}


class Whole(BaseModel):
    """Of the workflow with named branches, and children."""

    n: int = 0
    named: dict[str, int] = {}
    small: Small | None = None
    several: list[Small] = []


mixed = Workflow("mixed", state=Whole)


@mixed.step
def names(state: Whole, call: Call) -> Any:
    return fan_out({"one": ("twice", 1), "whole": "whole", "two": ("twice", 2)}, into="named")


@mixed.step
def one_child(state: Whole, call: Call) -> Any:
    return start_child(child, {"n": state.n}, into="small")


@mixed.step
def children(state: Whole, call: Call) -> Any:
    return fan_out([start_child(child, Small(n=n), thread_id=f"small-{n}") for n in (2, 3)], into="several")


@mixed.step
def children_again(state: Whole, call: Call) -> Any:
    return fan_out([start_child(child, {"n": n}, thread_id=f"small-{n}") for n in (2, 3)], into="several")


@mixed.branch
def twice(item: int, call: Call) -> int:
    return item * 2


@mixed.branch
async def whole(state: Whole, call: Call) -> int:
    return state.n


class Count(BaseModel):
    """seen: how far the loop has come."""

    to: int = 3
    seen: int = 0


looping = Workflow("looping", state=Count)


@looping.step(max_visits=5)
def turn(state: Count, call: Call) -> Any:
    return goto("turn", seen=state.seen + 1) if state.seen + 1 < state.to else finish(seen=state.seen + 1)


ALL = [fanning, child, mixed, looping]
