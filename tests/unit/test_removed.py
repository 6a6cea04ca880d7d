"""Steps that were removed: where their cases go on, and what is refused at import."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from keepstep.steps.decide import IN_DOUBT, passed_over
from keepstep.steps.errors import DefinitionError
from keepstep.steps.moves import Status
from keepstep.steps.removed import instead
from keepstep.steps.workflow import Workflow


class State(BaseModel):
    n: int = 0


def flow(removed: Any) -> Workflow:
    workflow = Workflow("flow", state=State, removed=removed)
    for name in ("first", "last"):
        workflow.step(lambda state, call: None, name=name, aliases=[f"former_{name}"])
    workflow.check()
    return workflow


def test_a_case_at_a_removed_step_goes_on_where_the_definition_says() -> None:
    workflow = flow({"old": "last", "older": "old", "renamed": "former_last", "end": None})
    for name in ("old", "older", "renamed"):
        step = instead(workflow, name)
        assert step is not None
        assert step.name == "last"
        decision = passed_over(workflow, name, State(n=3), in_doubt=False)
        assert decision.target is not None
        assert (decision.move, decision.target.step, decision.state) == ("advance", "last", {"n": 3})
    ended = passed_over(workflow, "end", State(), in_doubt=False)
    assert (ended.move, ended.status, ended.kind) == ("complete", Status.COMPLETED, "skip")


def test_a_removed_step_whose_call_is_in_doubt_is_for_a_person() -> None:
    decision = passed_over(flow({"old": "last"}), "old", State(), in_doubt=True)
    assert (decision.move, decision.error["why"]) == ("hold", IN_DOUBT)


def test_other_workers_are_told_of_the_names_at_which_a_case_may_stand() -> None:
    names = flow({"old": "last"}).step_names
    assert names == ["first", "last", "former_first", "former_last", "old"]


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (["old"], "removed must be a dict"),
        ({"old": 7}, "step name 7 must be"),
        ({"": "last"}, "step name '' must be"),
        ({"old": "nowhere"}, "leads to 'nowhere', which 'flow' doesn't have; its steps: first, last"),
        ({"a": "b", "b": "a"}, "leads to 'a'"),
        ({"a": "a"}, "leads to 'a'"),
        ({"first": "last"}, "declares the step 'first', and says it is removed"),
        ({"former_first": "last"}, "declares the step 'former_first', and says it is removed"),
    ],
)
def test_a_removed_step_must_be_gone_and_lead_somewhere(removed: Any, message: str) -> None:
    with pytest.raises(DefinitionError, match=message) as refusal:
        flow(removed)
    assert __file__ in str(refusal.value)
