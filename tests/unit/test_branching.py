"""What a step may fan out into, and what is made of it: pure."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep import BranchResult, Done, NotDone, Workflow, fan_out, start_child
from keepstep.steps.branches import BranchState
from keepstep.steps.decide import Decision, Returned, View, decide
from keepstep.steps.errors import DefinitionError
from keepstep.steps.keys import MAX_THREAD_ID, branch_run, branch_thread_id
from keepstep.workers.registry import Registry


class Item(BaseModel):
    """A model as an item."""

    on: date


class State(BaseModel):
    """n: a number. results: of branches."""

    n: int = 0
    results: Any = None


flow = Workflow("flow", state=State)


@flow.step
def first(state: State, call: Any) -> None: ...


@flow.step
def second(state: State, call: Any) -> None: ...


@flow.branch(queue="slow", max_visits=3)
def look(item: Item, call: Any) -> Any:
    return {"on": item.on}


@flow.branch
async def look_async(item: int, call: Any) -> Any:
    return item + 1


@flow.branch
def untyped(item, call):
    return item


def decided(outcome: Any, workflow: Workflow = flow) -> Decision:
    view = View(workflow=workflow, step=workflow.first, before=workflow.state().model_dump())
    return decide(view, Returned(value=outcome, copy=workflow.state()))


def refused(outcome: Any, workflow: Workflow = flow) -> str:
    decision = decided(outcome, workflow)
    assert decision.move == "hold", decision
    return f"{decision.error['type']}: {decision.error['message']}"


# ----------------------------------------------------------------------------------------------------------- branches
def test_a_branch_gets_its_item_as_it_declares_it_and_returns_its_result() -> None:
    assert flow.branches is not None
    steps = flow.branches.steps
    assert steps["look"].function(BranchState(item={"on": "2026-01-02"}), None) == {"result": {"on": "2026-01-02"}}
    assert asyncio.run(steps["look_async"].function(BranchState(item=1), None)) == {"result": 2}
    assert steps["untyped"].function(BranchState(item=[1]), None) == {"result": [1]}
    assert (steps["look"].queue, steps["look"].max_visits) == ("slow", 3)


def test_an_item_that_does_not_fit_says_where() -> None:
    assert flow.branches is not None
    with pytest.raises(Exception, match="/item/on"):
        flow.branches.steps["look"].function(BranchState(item={"on": "never"}), None)


def test_a_branch_ends_with_its_step() -> None:
    assert flow.branches is not None
    decision = decided({"result": 1}, flow.branches)
    assert (decision.move, decision.state) == ("complete", {"item": None, "result": 1})


def test_a_branch_s_verify_tells_its_result() -> None:
    checked = Workflow("checked", state=State)
    checked.step(name="only")(lambda state, call: None)
    checked.branch(name="pay", in_doubt=lambda item, call: Done(item) if item else NotDone)(lambda item, call: item)
    assert checked.branches is not None
    verify = checked.branches.steps["pay"].verify
    assert verify is not None
    assert verify(BranchState(item=7), None) == Done({"result": 7})
    assert verify(BranchState(item=0), None) is NotDone


def test_branches_are_no_part_of_the_order_and_come_with_their_workflow() -> None:
    assert list(flow.steps) == ["first", "second"]
    registry = Registry([flow])
    assert set(registry.versions) == {"flow", "flow.branches"}
    assert "slow" in registry.queues
    taken = Workflow("flow.branches", state=State)
    taken.step(name="a")(lambda state, call: None)
    with pytest.raises(DefinitionError, match=r"named 'flow\.branches'"):
        Registry([taken, flow])


def test_only_hooks_that_somebody_must_act_on_are_the_branches_too() -> None:
    told = Workflow("told", state=State)
    told.on("completed", "held")(lambda case, call: None)
    told.branch(name="b")(lambda item, call: None)
    told.on("remind")(lambda case, call: None)
    assert told.branches is not None
    assert set(told.branches.hooks) == {"held", "remind"}


# ------------------------------------------------------------------------------------------------------------ outcomes
def test_a_fan_out_is_a_wait_for_branches() -> None:
    decision = decided(fan_out("look", over=[Item(on=date(2026, 1, 2))], into="results", max_running=5))
    assert (decision.move, decision.status) == ("fan_out", "waiting")
    assert decision.fan is not None
    assert decision.fan.then is not None
    assert (decision.fan.then.step, decision.fan.max_running, decision.fan.shape) == ("second", 5, "list")
    assert decision.fan.branches[0].state == {"item": {"on": "2026-01-02"}, "result": None}
    assert decision.fan.kinds[0].workflow == "flow.branches"


@pytest.mark.parametrize(
    ("empty", "value"), [(fan_out("look", over=[], into="results"), []), (fan_out({}, into="results"), {})]
)
def test_a_fan_out_over_nothing_goes_on(empty: Any, value: Any) -> None:
    decision = decided(empty)
    assert decision.move == "advance"
    assert decision.state is not None
    assert decision.state["results"] == value


def test_a_branch_by_name_without_an_item_gets_the_new_state() -> None:
    decision = decided(fan_out({"a": "untyped", "b": ("untyped", None)}, update={"n": 3}))
    assert decision.fan is not None
    first_, second_ = decision.fan.branches
    assert first_.state["item"] == {"n": 3, "results": None}
    assert second_.state["item"] is None
    assert len(decision.fan.kinds) == 1


def test_a_child_s_state_is_checked_before_anything_is_written() -> None:
    decision = decided(start_child("flow", {"n": 2}, into="results"))
    assert decision.fan is not None
    assert (decision.fan.branches[0].state["n"], decision.fan.branches[0].sent) == (2, {"n": 2})
    assert "/n" in refused(start_child(flow, {"n": "many"}))
    assert "give the Workflow itself" in refused(start_child("another", {}))
    assert "empty" in refused(start_child(flow, {}, thread_id=""))


def test_what_cannot_be_is_refused_with_its_reason() -> None:
    assert "no branch step of 'flow' (look, look_async, untyped)" in refused(fan_out("first", over=[1]))
    assert "no such field" in refused(fan_out("look", over=[1], into="nowhere"))
    assert "the item of branch 1, a object, can't be JSON" in refused(fan_out("untyped", over=[1, object()]))
    assert "NaN" in refused(fan_out("untyped", over=[float("nan")])).replace("nan", "NaN")
    for nonsense in (
        lambda: fan_out("look"),
        lambda: fan_out("look", over="letters"),
        lambda: fan_out({"a": "look"}, over=[1]),
        lambda: fan_out({"a": 1}),
        lambda: fan_out([fan_out("look", over=[1])]),
        lambda: fan_out([start_child(flow, into="results")]),
        lambda: fan_out("look", over=[1], max_running=0),
        lambda: fan_out("look", over=[1], on_error="ignore"),
        lambda: fan_out("look", over=range(100_001)),
        lambda: start_child(7),
    ):
        with pytest.raises(ValueError, match=r"fan_out|start_child"):
            nonsense()
    for wrong in (0, True, "3"):
        with pytest.raises(DefinitionError, match="max_visits"):
            Workflow("w", state=State).step(name="a", max_visits=wrong)(lambda state, call: None)


# ---------------------------------------------------------------------------------------------------------- identities
def test_thread_ids_and_runs_are_of_one_visit_and_one_place() -> None:
    import uuid

    assert branch_thread_id("APP-1042", "check", 7, 3) == "APP-1042/check#7[3]"
    assert branch_thread_id("APP-1042", "credit", 7, None) == "APP-1042/credit#7"
    long = {branch_thread_id("x" * 250, "check", 7, n) for n in range(100)}
    assert len(long) == 100
    assert {len(thread_id) for thread_id in long} == {MAX_THREAD_ID}
    run = uuid.uuid4()
    assert branch_run(run, 7, 3) == branch_run(run, 7, 3)
    assert len({branch_run(run, 7, 3), branch_run(run, 7, 4), branch_run(run, 8, 3)}) == 3


def test_a_collected_result_is_ok_or_has_its_error() -> None:
    assert BranchResult[int](result=1).ok
    assert not BranchResult[int].model_validate({"error": {"type": "OSError"}}).ok
