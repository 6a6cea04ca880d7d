"""What `keepstep check` says of a case that waits for branches: of items that are to begin, of what has ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from keepstep import Workflow
from keepstep.checkpoint.compatible import findings
from keepstep.checkpoint.gathered import Outcome
from keepstep.checkpoint.inflight import Stored, StoredFan


class Item(BaseModel):
    name: str


class State(BaseModel):
    scores: list[int] | dict[str, int] = []


class Child(BaseModel):
    many: int


def flow(version: int = 2, *, upcasts: bool = True, state: type[BaseModel] = State) -> Workflow:
    """Version 1 had texts as items and as results; 2 has objects and numbers."""
    workflow = Workflow("flow", state=state, schema_version=version)
    workflow.step(lambda state, call: None, name="begin")
    workflow.step(lambda state, call: None, name="last")

    @workflow.branch
    def rate(item: Item, call: Any) -> int:
        return 1

    if upcasts and version > 1:
        workflow.upcast(from_version=1, item="rate")(lambda stored: {"name": stored})
        workflow.upcast(from_version=1, result="rate")(lambda stored: int(stored))
    return workflow


RATE = {"name": "rate", "workflow": "flow.branches", "step": "rate", "schema_version": 1, "child": False}
CHILD = {"name": "child", "workflow": "child", "step": "only", "schema_version": 1, "child": True}


def begins(item: Any, kind: dict[str, Any] = RATE) -> tuple[int, dict[str, Any], Any]:
    return 3, kind, item if kind["child"] else {"item": item, "result": None}


def ended(result: Any, version: int = 1, kind: dict[str, Any] = RATE) -> Outcome:
    return Outcome(which=0, kind=kind, result=result, error=None, version=version)


def fan(**changes: Any) -> StoredFan:
    there: dict[str, Any] = {
        "shape": "list", "into": "scores", "then": {"step": "last"}, "on_error": "fail", "goes_on": True,
        "to_begin": (), "ended": (),
    }  # fmt: skip
    return StoredFan(**{**there, **changes})


def told(workflow: Workflow, fan: StoredFan, *others: Workflow, version: int = 1) -> list[str]:
    stored = Stored(
        workflow="flow", thread_id="A", seq=1, status="waiting", step="begin", queue="keepstep", is_pinned=False,
        version=version, in_doubt=False, state={"scores": []}, damage=None, waits=(), signals=(), fan=fan,
    )  # fmt: skip
    known = {one.name: one for one in (workflow, *others, workflow.branches) if one is not None}
    found = findings(workflow, stored, ["keepstep"], known.get)
    return [f"{one.verdict} {one.why} {one.detail} {one.path}" for one in found]


def only(found: list[str], *words: str) -> None:
    [text] = found
    assert all(word in text for word in words), text


def test_a_fan_out_that_goes_on_has_no_finding() -> None:
    there = fan(to_begin=[begins("a"), begins("b")], ended=[ended("7"), ended(8, version=2)])
    assert told(flow(), there) == []
    assert told(flow(1), fan(ended=[ended(8)])) == []
    named = replace(fan(ended=[ended("7")]), shape="dict")
    assert told(flow(), named) == []
    assert told(flow(), replace(named, on_error="collect", into=None)) == []


def test_a_step_that_is_gone_is_found_behind_the_fan_out_and_at_its_branches() -> None:
    only(told(flow(), fan(then={"step": "gone"})), "held", "its fan-out leads to the step gone", "begin, last")
    gone = {**RATE, "step": "gone"}
    only(told(flow(), fan(to_begin=[begins("a", gone)])), "held", "a branch of its fan-out begins at the step gone")


def test_an_item_that_can_not_be_loaded_would_hold_its_branch() -> None:
    found = told(flow(upcasts=False), fan(to_begin=[begins("a"), begins("b")]))
    only(found, "held", "an item of its fan-out can't be loaded by rate (version 1 to 2)", "branch 3", "/item")
    broken = flow(upcasts=False)
    broken.upcast(from_version=1, item="rate")(lambda stored: {"name": stored["called"]})
    only(told(broken, fan(to_begin=[begins({})])), "held", "flow item rate", "from version 1 to 2", "/item/called")


def test_a_result_that_can_not_be_upcast_or_does_not_fit_would_hold_the_case() -> None:
    only(told(flow(), fan(ended=[ended("seven")])), "held", "flow result rate", "ValueError", "/result")
    only(told(flow(upcasts=False), fan(ended=[ended("seven")])), "held", "doesn't fit State/scores", "/scores")
    only(told(flow(1), fan(ended=[ended("seven")])), "held", "doesn't fit State/scores")


def test_results_that_all_are_of_the_version_that_asked_are_judged_with_the_state() -> None:
    workflow = flow(upcasts=False)
    workflow.upcast(from_version=1)(lambda stored: {"scores": [len(text) for text in stored["scores"]]})
    assert told(workflow, fan(goes_on=False, ended=[ended("seven")])) == []
    only(told(workflow, fan(goes_on=True, ended=[ended("seven")])), "held", "doesn't fit State/scores")


def test_a_field_that_is_gone_is_found_if_the_state_will_have_gone_along() -> None:
    class Renamed(BaseModel):
        points: list[int] = []

    workflow = flow(state=Renamed)
    workflow.upcast(from_version=1)(lambda stored: {"points": stored["scores"]})
    only(told(workflow, fan()), "held", "go into /scores, which Renamed doesn't have")
    assert told(workflow, fan(goes_on=False, ended=[ended(7)])) == [], "the state's upcaster renames it"


def test_what_is_newer_would_stand_still() -> None:
    newer = {**RATE, "schema_version": 3}
    only(told(flow(), fan(to_begin=[begins("a", newer)])), "stuck", "has version 3, this code knows 2")
    only(told(flow(), fan(ended=[ended(7, version=3)])), "stuck", "a result of rate has version 3")


def test_a_validator_of_the_users_own_is_only_warned_of_because_others_may_come() -> None:
    def two(value: list[int]) -> list[int]:
        if len(value) == 1:
            raise ValueError("two at least")
        return value

    class Strict(BaseModel):
        scores: Annotated[list[int], AfterValidator(two)] = []

    only(told(flow(state=Strict), fan(ended=[ended("7")])), "warned", "two at least")


@pytest.mark.parametrize("knows", [True, False])
def test_children_are_judged_by_their_own_workflow(knows: bool) -> None:
    child = Workflow("child", state=Child, schema_version=2)
    child.step(lambda state, call: None, name="only")
    child.upcast(from_version=1)(lambda stored: {"many": stored["n"]})

    class Holder(BaseModel):
        scores: list[Child] = []

    there = fan(to_begin=[begins({"x": 1}, CHILD)], ended=[ended({"n": 1}, kind=CHILD)])
    found = told(flow(state=Holder), there, *([child] if knows else []))
    if knows:
        only(found, "held", "an item of its fan-out can't be loaded by child (version 1 to 2)", "/n")
    else:
        assert [text.split()[0] for text in found] == ["warned", "held"]
        assert "which isn't loaded" in found[0]
