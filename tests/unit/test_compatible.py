"""What `keepstep check` says of one case: held, stuck, worth a look, or nothing."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from keepstep import Workflow
from keepstep.checkpoint.compatible import findings, unknown
from keepstep.checkpoint.finding import Verdict
from keepstep.checkpoint.inflight import Stored


class Approval(BaseModel):
    approved: bool


class Item(BaseModel):
    name: str


class State(BaseModel):
    amount: int = 0
    items: list[Item] = []
    approval: Approval | None = None


def flow(version: int = 1, **options: Any) -> Workflow:
    workflow = Workflow("flow", state=options.pop("state", State), schema_version=version, **options)
    for name in ("first", "last"):
        workflow.step(lambda state, call: None, name=name, aliases=[f"former_{name}"])
    return workflow


def case(state: Any = None, **changes: Any) -> Stored:
    stored: dict[str, Any] = {
        "workflow": "flow", "thread_id": "A", "seq": 3, "status": "queued", "step": "last", "queue": "keepstep",
        "is_pinned": False, "version": 1, "in_doubt": False, "state": {"amount": 1} if state is None else state,
        "damage": None, "waits": (), "signals": (),
    }  # fmt: skip
    return Stored(**{**stored, **changes})


def wait(**changes: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
    asked = {"name": "ok", "into": "approval", "schema": schema, "then": {"step": "last"}, "on_timeout": None}
    return {**asked, "default": None, **changes}


def told(workflow: Workflow | None, stored: Stored) -> list[tuple[str, str]]:
    """Verdict and reason of each, as one line."""
    found = findings(workflow, stored, ["keepstep"], lambda name: None)
    return [(str(one.verdict), f"{one.why} {one.detail} {one.path}") for one in found]


def only(workflow: Workflow | None, stored: Stored, verdict: str, *words: str) -> None:
    [(said, text)] = told(workflow, stored)
    assert said == verdict, text
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "stored",
    [
        case(),
        case(step="former_last"),
        case(step="gone", status="waiting", waits=[wait()]),
        case(queue="other", is_pinned=True),
        case(status="waiting", waits=[wait(into=None, schema=None)]),
        case({"amount": 1, "items": [{"name": "a"}], "approval": None}),
    ],
)
def test_a_case_that_goes_on_has_no_finding(stored: Stored) -> None:
    assert told(flow(), stored) == []


def test_what_can_not_be_loaded_would_be_held_with_versions_and_path() -> None:
    only(flow(), replace(case(), state=None, damage="a gap"), "held", "damaged", "a gap")
    only(flow(), case({"amount": "x"}), "held", "version 1 to 1", "/amount", "valid integer")
    upcasting = flow(2)
    upcasting.upcast(from_version=1)(lambda stored: {"amount": stored["sum"]})
    only(upcasting, case(), "held", "version 1 to 2", "KeyError", "/sum")


def test_a_newer_case_and_one_of_another_workflow_would_stand_still() -> None:
    only(flow(), case(version=2), "stuck", "version 2, this code knows 1")
    only(None, case(), "stuck", "its workflow isn't loaded")


def test_steps_are_looked_for_where_the_case_stands_and_where_its_waits_lead() -> None:
    only(flow(), case(step="gone"), "held", "the step gone", "first, last", "aliases=", "removed=")
    assert told(flow(removed={"gone": "last"}), case(step="gone")) == []
    leads = {"then": {"step": "gone"}, "on_timeout": {"step": "never"}}
    both = told(flow(), case(status="waiting", waits=[wait(**leads)]))
    assert [verdict for verdict, _ in both] == ["held", "held"]
    assert ["gone" in both[0][1], "never" in both[1][1]] == [True, True]


def test_a_call_in_doubt_of_a_step_that_lost_its_verify_is_for_a_person() -> None:
    only(flow(), case(in_doubt=True, status="sleeping"), "held", "in doubt", "no verify")
    only(flow(removed={"gone": "last"}), case(step="gone", in_doubt=True), "held", "removed", "in doubt")


def test_a_queue_that_no_step_uses_any_more_is_a_warning() -> None:
    only(flow(), case(queue="slow"), "warned", "queue slow", "-Q")


def test_stored_fields_that_the_model_does_not_know_are_a_warning_with_their_paths() -> None:
    stored = {"amount": 1, "old": 1, "items": [{"name": "a", "size": 1}, {"name": "b", "size": 2}]}
    only(flow(), case(stored), "warned", "would be lost: /items/*/size, /old")


def test_an_upcaster_that_is_not_pure_is_a_warning() -> None:
    workflow = flow(2)
    workflow.upcast(from_version=1)(lambda stored: {"amount": random.getrandbits(60)})
    only(workflow, case(), "warned", "pure function")


# ------------------------------------------------------------------------------------------------ waits and signals
class Signed(BaseModel):
    approved: bool
    by: str


class Asks(BaseModel):
    approval: Signed | None = None


class Wise(Approval):
    @model_validator(mode="after")
    def _never(self) -> Wise:
        raise ValueError("I know better")


class Choosy(BaseModel):
    approval: Wise | None = None


def test_an_answer_that_the_model_can_not_take_any_more_leaves_the_case_stuck() -> None:
    asked = case({}, status="waiting", waits=[wait()])
    only(flow(state=Asks), asked, "stuck", "wait for ok", "/approval", "Field required")
    only(flow(state=Item), case({"name": "a"}, status="waiting", waits=[wait()]), "stuck", "no field 'approval'")
    only(
        flow(state=Asks),
        case({}, status="waiting", waits=[wait(schema=None, default=[{"x": 1}])]),
        "stuck",
        "/approved",
    )
    only(flow(state=Choosy), asked, "warned", "I know better")


def test_an_answer_in_the_older_version_is_judged_after_the_upcast() -> None:
    asked = case({}, status="waiting", waits=[wait()])
    workflow = flow(2, state=Asks)

    @workflow.upcast(from_version=1)
    def sign(stored: dict[str, Any]) -> dict[str, Any]:
        if stored.get("approval"):
            stored["approval"]["by"] = "somebody"
        return stored

    assert told(workflow, asked) == []


def test_a_kept_signal_that_can_not_be_upcast_is_told() -> None:
    workflow = flow(2)
    workflow.upcast(from_version=1, signal="ok")(lambda stored: stored["none"])
    kept = case(signals=[{"name": "ok", "version": 1, "payload": {}}])
    only(workflow, kept, "stuck", "signal ok", "version 1 to 2", "/none")


def test_what_is_held_already_keeps_no_deploy() -> None:
    assert [verdict for verdict, _ in told(flow(), case({"amount": "x"}, status="held", step="gone"))] == [
        str(Verdict.WARNED)
    ] * 2


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


def test_a_model_that_allows_more_loses_nothing() -> None:
    assert told(flow(state=Open), case({"any": {"thing": 1}}, status="waiting", waits=[wait()])) == []
    assert list(unknown({"a": [{"b": 1}]}, {"a": [{}]})) == ["/a/0/b"]
