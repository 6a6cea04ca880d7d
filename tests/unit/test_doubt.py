"""What becomes of a call in doubt: the policy of its step decides, and then what `verify` says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Done, NotDone, Retry, Unknown, Workflow, goto
from keepstep.steps.decide import Decision, Raised, Returned, TimedOut, View, decide
from keepstep.steps.doubt import verified
from keepstep.steps.errors import DefinitionError
from keepstep.steps.moves import MOVES, Status


class State(BaseModel):
    n: int = 0


class Refused(Exception):
    pass


def nothing(state: State, call: Any) -> None:
    """A step, and a verify."""


def view(*, failures: int = 0, verifications: int = 0, attempts: int = 3, **options: Any) -> View:
    workflow = Workflow("flow", state=State)
    retry = Retry(attempts=attempts, wait=wait_fixed(7))
    workflow.step(name="pay", **{"in_doubt": nothing, "retry": retry, **options})(nothing)
    workflow.step(name="last")(nothing)
    return View(
        workflow=workflow,
        step=workflow.steps["pay"],
        before={"n": 1},
        failures=failures,
        verifications=verifications,
        settling=5.0,
    )


def said(value: Any, **counted: Any) -> Decision:
    return verified(view(**counted), Returned(value=value, copy=State(n=1)))


def raised(error: BaseException, **options: Any) -> Decision:
    return decide(view(**options), Raised(error=error))


def test_whatever_is_raised_leaves_the_call_in_doubt_and_has_it_verified_after_settling() -> None:
    decision = raised(TimeoutError("the request was sent, no answer came"))
    assert (decision.move, decision.status, decision.delay, decision.doubt) == ("doubt", "sleeping", 5.0, "begin")


@pytest.mark.parametrize(
    ("error", "options", "move"),
    [
        (NotDone(), {}, "back_off"),
        (Refused(), {"safe_errors": [Refused]}, "back_off"),
        (Refused(), {"permanent": [Refused]}, "fail"),
        (NotDone(), {"attempts": 1}, "hold"),
    ],
)
def test_what_is_known_not_to_have_happened_is_no_doubt(error, options, move) -> None:
    assert (raised(error, **options).move, raised(error, **options).doubt) == (move, "keep")


def test_a_timeout_is_held_because_the_request_may_still_be_on_its_way() -> None:
    decision = decide(view(), TimedOut(timeout=1))
    assert (decision.move, decision.doubt) == ("hold", "begin")


@pytest.mark.parametrize("error", [OSError(), TimeoutError()])
def test_under_hold_a_person_is_asked_and_the_attempt_is_remembered(error) -> None:
    decision = raised(error, in_doubt="hold")
    assert (decision.move, decision.doubt) == ("hold", "begin")


@pytest.mark.parametrize("value", [Done({"n": 2}), Done(State(n=2)), Done(goto("last", n=2))])
def test_done_is_the_steps_own_result(value) -> None:
    decision = said(value)
    assert (decision.move, decision.state, decision.target.step) == ("advance", {"n": 2}, "last")


@pytest.mark.parametrize("value", [Done, Done()])
def test_done_without_a_result_changes_nothing(value) -> None:
    assert (said(value).move, said(value).state) == ("advance", {"n": 1})


@pytest.mark.parametrize("value", [NotDone, NotDone("not there")])
def test_not_done_calls_the_step_again_and_settles_the_doubt(value) -> None:
    assert (said(value).move, said(value).delay, said(value).doubt) == ("back_off", 0.0, "clear")
    assert said(value, failures=1).delay == 7, "it had raised: the retry policy's wait"


def test_not_done_may_be_raised_too() -> None:
    assert verified(view(), Raised(error=NotDone())).doubt == "clear"


def test_not_done_after_the_last_try_is_the_end_of_the_retries() -> None:
    decision = said(NotDone, failures=3)
    assert (decision.move, decision.error["why"], decision.doubt) == ("hold", "retries ran out", "clear")
    assert said(NotDone, failures=3, on_exhausted="fail").move == "fail"


@pytest.mark.parametrize("value", [Unknown, Unknown()])
def test_unknown_asks_a_person_and_keeps_the_doubt(value) -> None:
    assert (said(value).move, said(value).doubt) == ("hold", "keep")
    assert "in doubt" in said(value).error["why"]


@pytest.mark.parametrize("result", [Raised(error=OSError("the look-up is down")), TimedOut(timeout=1)])
def test_a_verification_that_comes_to_nothing_is_made_again_and_then_a_person_is_asked(result) -> None:
    decision = verified(view(verifications=1), result)
    assert (decision.move, decision.delay, decision.doubt) == ("back_off", 7, "verify")
    decision = verified(view(verifications=2), result)
    assert (decision.move, decision.doubt) == ("hold", "keep")
    assert "verify failed too often" in decision.error["why"]


@pytest.mark.parametrize("value", [None, True, {"n": 2}, Done({"n": "no number"}), Done(7), Done(goto("nowhere"))])
def test_nonsense_from_verify_holds_the_case_and_keeps_the_doubt(value) -> None:
    assert (said(value).move, said(value).doubt, said(value).error["why"]) == ("hold", "keep", "bad result of verify")


@pytest.mark.parametrize(
    "result", [Returned(value=v, copy=State(n=1)) for v in (Done, NotDone, Unknown, 7)] + [Raised(error=OSError())]
)
def test_every_decision_is_a_legal_move(result) -> None:
    for failures in range(4):
        decision = verified(view(failures=failures, verifications=failures), result)
        assert decision.status in MOVES[decision.move].targets
        assert Status.RUNNING in MOVES[decision.move].sources


def test_a_transactional_step_is_never_in_doubt_and_never_async() -> None:
    workflow = Workflow("flow", state=State)
    with pytest.raises(DefinitionError, match="never in doubt"):
        workflow.step(transactional=True, in_doubt="hold")(nothing)

    async def later(state: State, call: Any) -> None:
        """A coroutine."""

    with pytest.raises(DefinitionError, match="not an async one"):
        workflow.step(transactional=True)(later)
