"""The workflows of the measurements of branches: steps that do nothing."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from benchmarks.work import work
from keepstep import Call, Workflow, fan_out, finish, goto
from keepstep.steps.branches import BranchState


class Wide(BaseModel):
    """count: of branches, of which `window` may be unfinished at a time."""

    count: int
    window: int
    results: list[int] = []


class Long(BaseModel):
    """to: the length of the loop."""

    to: int
    seen: int = 0


fanning = Workflow("fanning", state=Wide)
alone = Workflow("alone", state=BranchState)
warm = Workflow("warm", state=BranchState)


@fanning.step
def spread(state: Wide, _call: Call) -> Any:
    return fan_out("one", over=range(state.count), into="results", max_running=state.window)


@fanning.branch
def one(item: Any, _call: Call) -> int:
    return int(item)


@alone.step(name="one")
def one_alone(state: BranchState, _call: Call) -> dict[str, Any]:
    return {"result": int(state.item)}


@warm.step(name="one")
def one_warm(state: BranchState, _call: Call) -> dict[str, Any]:
    return {"result": int(state.item)}


def _turning(name: str, max_visits: int | None) -> Workflow:
    """A loop of one step that comes to itself, and every second time by way of another."""
    workflow = Workflow(name, state=Long)

    @workflow.step(max_visits=max_visits)
    def turn(state: Long, _call: Call) -> Any:
        if state.seen + 1 == state.to:
            return finish(seen=state.seen + 1)
        return goto("other" if state.seen % 2 else "turn", seen=state.seen + 1)

    @workflow.step
    def other(state: Long, _call: Call) -> Any:
        return goto("turn", seen=state.seen + 1)

    return workflow


endless = _turning("endless", None)
guarded = _turning("guarded", 1500)
far_from_its_end = _turning("far", 5000)
LOOPS = {None: endless, 1500: guarded, 5000: far_from_its_end}
"""By the `max_visits` of their step."""

ALL = [fanning, alone, warm, work, *LOOPS.values()]
