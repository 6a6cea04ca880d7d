"""Upcasters: chained, pure on JSON, refused at import if one is missing, and loud when one goes wrong."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep.steps.errors import BadState, DefinitionError, UpcastFailed
from keepstep.steps.upcasts import load, why_no_payload
from keepstep.steps.workflow import Workflow


class Person(BaseModel):
    given: str
    family: str
    tags: list[str] = []


def versioned(version: int = 3, upcasters: dict[int, Any] | None = None) -> Workflow:
    """Version 1 had `name`; 2 split it; 3 made `tag` a list."""
    workflow = Workflow("people", state=Person, schema_version=version)
    workflow.step(lambda state, call: None, name="only")
    for number, function in (CHAIN if upcasters is None else upcasters).items():
        workflow.upcast(from_version=number)(function)
    return workflow


def split(stored: dict[str, Any]) -> dict[str, Any]:
    given, _, family = stored.pop("name").partition(" ")
    return {**stored, "given": given, "family": family}


def listed(stored: dict[str, Any]) -> dict[str, Any]:
    stored["tags"] = [stored.pop("tag")]
    return stored


CHAIN = {1: split, 2: listed}
V1 = {"name": "Ada Lovelace", "tag": "x"}


def test_a_state_goes_through_every_upcaster_from_its_version_on() -> None:
    workflow = versioned()
    before, state, _ = load(workflow, V1, 1)
    assert before == {"given": "Ada", "family": "Lovelace", "tags": ["x"]}
    assert state == Person(given="Ada", family="Lovelace", tags=["x"])
    assert load(workflow, {"given": "A", "family": "L", "tag": "y"}, 2)[0]["tags"] == ["y"]


def test_what_is_stored_is_not_touched_by_an_upcaster_that_changes_its_copy() -> None:
    stored = {"name": "Ada Lovelace", "tag": "x"}
    load(versioned(), stored, 1)
    assert stored == V1


def test_a_state_of_the_present_version_is_not_copied() -> None:
    stored = {"given": "A", "family": "L", "tags": []}
    assert load(versioned(), stored, 3)[0] is stored


def test_without_any_upcaster_older_states_are_taken_as_they_are() -> None:
    workflow = versioned(upcasters={})
    workflow.check()
    assert load(workflow, {"given": "A", "family": "L"}, 1)[1] == Person(given="A", family="L")


# -------------------------------------------------------------------------------------------------------- at import
@pytest.mark.parametrize(("there", "missing"), [({1: split}, 2), ({1: split, 3: listed}, 2)])
def test_a_gap_in_the_chain_is_refused_when_the_definition_is_finished(there: dict[int, Any], missing: int) -> None:
    workflow = versioned(4 if 3 in there else 3, there)
    with pytest.raises(DefinitionError, match=rf"none from version {missing}\b") as refusal:
        workflow.check()
    assert __file__ in str(refusal.value)


def test_the_oldest_upcasters_may_go_when_nothing_so_old_is_left() -> None:
    workflow = versioned(upcasters={2: listed})
    workflow.check()
    with pytest.raises(UpcastFailed, match=r"from version 1 to 3.*the oldest upcaster is from 2"):
        load(workflow, V1, 1)


@pytest.mark.parametrize("number", [0, -1, "1", True, 1.0, None])
def test_a_version_is_a_whole_number_from_one_on(number: Any) -> None:
    with pytest.raises(DefinitionError, match="from_version must be"):
        versioned(upcasters={number: split})


def test_an_upcaster_beyond_the_present_version_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"leads to 4, and 'people' has schema_version=3"):
        versioned(upcasters={3: split})


def test_two_upcasters_from_one_version_are_refused() -> None:
    workflow = versioned()
    with pytest.raises(DefinitionError, match="two upcasters from version 1"):
        workflow.upcast(from_version=1)(split)


async def later(stored: Any) -> Any:
    return stored


@pytest.mark.parametrize("function", [None, 7, dict, lambda a, b: {}, later, functools.partial(split, {})])
def test_what_can_not_be_called_with_the_stored_json_is_refused(function: Any) -> None:
    with pytest.raises(DefinitionError, match="upcaster"):
        versioned(upcasters={1: function})


# ------------------------------------------------------------------------------------------------------ going wrong
@pytest.mark.parametrize(
    ("function", "message", "path"),
    [
        (lambda stored: stored["gone"], "raised KeyError", "/gone"),
        (lambda stored: 1 / 0, "raised ZeroDivisionError", ""),
        (lambda stored: None, "returned a NoneType, not an object", ""),
        (lambda stored: [stored], "returned a list, not an object", ""),
        (lambda stored: {"a": {"b": float("nan")}}, "nan is not a JSON number", "/a/b"),
        (lambda stored: {"a": [{1, 2}]}, "a set is no JSON value", "/a/0"),
        (lambda stored: {"a": object()}, "is no JSON value", "/a"),
    ],
)
def test_a_bad_upcaster_says_from_which_version_and_where(function: Any, message: str, path: str) -> None:
    with pytest.raises(UpcastFailed, match=message) as refusal:
        load(versioned(upcasters={1: function, 2: listed}), V1, 1)
    assert "people can't be brought from version 1 to 2" in str(refusal.value)
    assert (refusal.value.path, refusal.value.version, refusal.value.to) == (path, 1, 2)


def test_an_upcast_state_that_does_not_fit_the_model_says_both_versions_and_the_path() -> None:
    broken = {1: lambda stored: {"given": "A"}, 2: lambda stored: stored}
    with pytest.raises(
        BadState, match=r"Person/family: Field required \(stored as version 1, upcast to 3\)"
    ) as refusal:
        load(versioned(upcasters=broken), V1, 1)
    assert refusal.value.path == "/family"


def test_a_model_that_lost_a_field_without_a_new_version_is_told_so() -> None:
    with pytest.raises(BadState, match=r"stored as version 3.*no schema_version was raised"):
        load(versioned(), {"given": "A"}, 3)


def test_a_newer_state_is_never_loaded() -> None:
    with pytest.raises(UpcastFailed, match="from version 4 to 3: it is newer than this code"):
        load(versioned(), V1, 4)


# --------------------------------------------------------------------------------------------------------- payloads
class Answer(BaseModel):
    yes: bool


class Case(BaseModel):
    answer: Answer | None = None


def asking() -> Workflow:
    workflow = Workflow("asking", state=Case, schema_version=2)
    workflow.step(lambda state, call: None, name="only")

    @workflow.upcast(from_version=1)
    def wrap(stored: dict[str, Any]) -> dict[str, Any]:
        if stored.get("answer") is not None:
            stored["answer"] = {"yes": stored["answer"] == "yes"}
        return stored

    @workflow.upcast(from_version=1, signal="answer")
    def wrap_payload(stored: str) -> dict[str, Any]:
        return {"yes": {"yes": True, "no": False}[stored]}

    return workflow


def test_a_payload_goes_through_its_signals_upcasters_only() -> None:
    upcasts = asking().upcasts
    assert upcasts.payload("answer", "yes", 1, 2) == {"yes": True}
    assert upcasts.payload("other", "yes", 1, 2) == "yes"
    assert upcasts.payload("answer", "yes", 1, 1) == "yes", "asked in the version that it was sent in"
    with pytest.raises(UpcastFailed, match="signal answer can't be brought from version 1 to 2 at /maybe"):
        upcasts.payload("answer", "maybe", 1, 2)


def test_an_answer_to_an_older_question_is_judged_by_the_state_that_it_makes() -> None:
    workflow = asking()
    assert why_no_payload(workflow, {}, 1, "answer", "yes") is None
    assert why_no_payload(workflow, {"answer": 5}, 2, "answer", {"yes": True}) is None
    assert "Case/answer" in str(why_no_payload(workflow, {}, 2, "answer", "yes"))


def test_a_payload_is_not_blamed_for_a_state_that_can_not_be_loaded_anyhow() -> None:
    assert why_no_payload(versioned(), {"tag": "x"}, 1, "tag", "y") is None


# ----------------------------------------------------------------------------------------------------------- branches
class Name(BaseModel):
    given: str


def branching(version: int = 3) -> Workflow:
    workflow = Workflow("people", state=Person, schema_version=version)
    workflow.step(lambda state, call: None, name="only")

    @workflow.branch(aliases=["greet_old"])
    def greet(item: Name, call: Any) -> None: ...

    @workflow.branch
    def whole(item: Person, call: Any) -> None: ...

    @workflow.branch
    def untyped(item, call): ...

    return workflow


def branch_state(workflow: Workflow, item: Any, version: int, step: str = "greet", result: Any = None) -> Any:
    assert workflow.branches is not None
    return load(workflow.branches, {"item": item, "result": result}, version, step=step).before


def test_an_item_and_a_result_go_through_the_upcasters_of_their_step_only() -> None:
    workflow = branching()
    workflow.upcast(from_version=1, item="greet")(lambda stored: {"name": stored})
    workflow.upcast(from_version=2, item="greet")(lambda stored: {"given": stored["name"]})
    workflow.upcast(from_version=2, result="greet")(lambda stored: [stored])
    workflow.check()
    assert branch_state(workflow, "Ada", 1) == {"item": {"given": "Ada"}, "result": None}
    assert branch_state(workflow, {"name": "Ada"}, 2, result=7) == {"item": {"given": "Ada"}, "result": [7]}
    assert branch_state(workflow, {"given": "Ada"}, 3)["item"] == {"given": "Ada"}
    assert branch_state(workflow, "Ada", 1, step="greet_old")["item"] == {"given": "Ada"}, "a renamed step is the same"
    assert branch_state(workflow, "Ada", 1, step="untyped")["item"] == "Ada"
    assert workflow.branches is not None
    assert workflow.branches.upcasts.result("greet_old", 7, 1) == [7]
    assert workflow.branches.upcasts.payload("go", 7, 1, 3) == 7


def test_an_item_that_is_declared_as_the_state_is_upcast_as_the_state_is() -> None:
    workflow = branching()
    for number, function in CHAIN.items():
        workflow.upcast(from_version=number)(function)
    assert branch_state(workflow, V1, 1, step="whole")["item"] == {"given": "Ada", "family": "Lovelace", "tags": ["x"]}
    workflow.upcast(from_version=1, item="whole")(lambda stored: {"given": "own", "family": ""})
    assert branch_state(workflow, V1, 1, step="whole")["item"]["given"] == "own", "unless it has an upcaster of its own"


def test_signals_of_branches_have_the_upcasters_of_their_workflow() -> None:
    workflow = branching()
    workflow.upcast(from_version=1, signal="go")(lambda stored: {"yes": stored})
    assert workflow.branches is not None
    assert workflow.branches.upcasts.payload("go", True, 1, 3) == {"yes": True}


def test_an_item_that_does_not_fit_its_step_says_both_versions_and_the_path() -> None:
    with pytest.raises(BadState, match=r"/item: .*\(stored as version 1, upcast to 3\)") as refusal:
        branch_state(branching(), "Ada", 1)
    assert refusal.value.path == "/item"
    with pytest.raises(BadState, match=r"/item/given: Field required \(stored as version 3, as this code's is"):
        branch_state(branching(), {}, 3)
    workflow = branching()
    workflow.upcast(from_version=2, item="greet")(lambda stored: stored["called"])
    with pytest.raises(UpcastFailed, match="people item greet can't be brought from version 2 to 3 at /item/called"):
        branch_state(workflow, {}, 1)
    with pytest.raises(UpcastFailed, match="it is newer than this code"):
        branch_state(workflow, {}, 4)


@pytest.mark.parametrize("kind", ["item", "result"])
def test_an_upcaster_of_a_branch_step_that_there_is_not_is_refused(kind: str) -> None:
    workflow = branching()
    workflow.upcast(from_version=1, **{kind: "greet_old"})(lambda stored: stored)
    with pytest.raises(
        DefinitionError, match=rf"upcast\({kind}='greet_old'\).* no such branch step; it has greet, whole"
    ):
        workflow.check()
    lonely = versioned()
    lonely.upcast(from_version=1, **{kind: "greet"})(lambda stored: stored)
    with pytest.raises(DefinitionError, match="it has none"):
        lonely.check()


def test_an_upcaster_is_of_one_thing() -> None:
    with pytest.raises(DefinitionError, match="an upcaster is of one thing: item or result="):
        branching().upcast(from_version=1, item="greet", result="greet")(lambda stored: stored)
