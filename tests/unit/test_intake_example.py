"""The intake example does what its page says: 42 steps, one keyed call or one calculation in each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from keepstep.examples import lending
from keepstep.examples.application import DOCUMENTS, Document, Intake
from keepstep.examples.intake import intake
from keepstep.examples.stub_answers import SLOW_ENDPOINT
from keepstep.examples.stub_apis import StubApis
from keepstep.examples.tools import Refused
from keepstep.steps.decide import Returned, View, decide
from keepstep.steps.moves import Status
from keepstep.steps.step import Step

NAMES = list(intake.steps)
CALLING = {name for name, step in intake.steps.items() if step.permanent == (Refused,)}
THIRD_PARTIES = {"verify_identity", "check_credit", "screen_sanctions", *NAMES[32:34]}


@dataclass
class FakeCall:
    """What the steps use of a call."""

    key: str
    thread_id: str = "APP-1042"
    attempt: int = 1

    @property
    def headers(self) -> dict[str, str]:
        return {"Idempotency-Key": self.key}


@dataclass
class Run:
    """One run of the workflow, without engine: what was visited, the states that the steps saw, and the end."""

    visited: list[str] = field(default_factory=list)
    states: dict[str, Intake] = field(default_factory=dict)
    prompt: Any = None
    status: Status = Status.QUEUED
    state: dict[str, Any] = field(default_factory=dict)

    def go(self, verdict: dict[str, Any] | None) -> "Run":
        """Visit step after step by the engine's own decisions; None lets the underwriter's time run out."""
        self.state = Intake(application="APP-1042").model_dump(mode="json")
        step: Step | None = intake.first
        while step is not None:
            self.visited.append(step.name)
            self.states[step.name] = Intake.model_validate(self.state)
            step = self._visit(step, verdict)
        return self

    def _visit(self, step: Step, verdict: dict[str, Any] | None) -> Step | None:
        copy = Intake.model_validate(self.state)
        value = step.function(copy, FakeCall(key=f"key-{step.name}"))
        decision = decide(View(workflow=intake, step=step, before=self.state), Returned(value=value, copy=copy))
        assert decision.error == {}
        self.status, self.state = decision.status, decision.state or self.state
        target = decision.target
        if decision.waits:
            [wait] = decision.waits
            self.prompt = wait.prompt
            target = wait.on_timeout if verdict is None else wait.then
            self.state = {**self.state, wait.into or "": verdict}
        return None if target is None else intake.find(target.step)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApis]:
    with StubApis() as stub:
        monkeypatch.setenv("KEEPSTEP_STUB_URL", stub.url)
        yield stub


def test_the_workflow_has_42_steps_and_no_edge_that_leads_nowhere() -> None:
    intake.check()
    assert len(NAMES) == 42
    assert len(DOCUMENTS) == 12


def test_step_34_alone_asks_the_slow_endpoint(stub: StubApis) -> None:
    Run().go({"approved": True})
    assert NAMES[34 - 1] == "await_registry_extract"
    slow = [call["key"] for call in stub.calls()["calls"] if call["endpoint"] == SLOW_ENDPOINT]
    assert slow == ["key-await_registry_extract"]


def test_an_ordinary_run_visits_all_42_steps_once_and_in_order(stub: StubApis) -> None:
    run = Run().go({"approved": True, "actor": "underwriter-7"})
    assert run.visited == NAMES
    assert run.status is Status.COMPLETED
    end = Intake.model_validate(run.state)
    assert end.decision == "approved"
    assert [document.name for document in end.documents] == list(DOCUMENTS)
    assert end.offer
    assert end.record
    assert len(end.notifications) == 1
    assert end.vault_closed


@pytest.mark.parametrize(("verdict", "decision"), [({"approved": False}, "refused"), (None, "lapsed")])
def test_without_an_approval_there_is_no_offer_but_a_record_and_a_notice(
    stub: StubApis, verdict: dict[str, Any] | None, decision: str
) -> None:
    run = Run().go(verdict)
    escalated = ["ask_underwriter"] if verdict is None else []  # asked once more before it lapses
    at = NAMES.index("ask_underwriter")
    assert run.visited == [name for name in [*NAMES[:at], *escalated, *NAMES[at:]] if name != "issue_offer"]
    assert (run.status, run.state["decision"], run.state["offer"]) == (Status.COMPLETED, decision, None)
    assert "/offers" not in {call["endpoint"] for call in stub.calls()["calls"]}


def test_the_underwriter_is_asked_with_summary_score_and_flags(stub: StubApis) -> None:
    run = Run().go({"approved": True})
    assert run.prompt == {name: run.state[name] for name in ("summary", "score", "flags")} | {"escalated": False}
    assert run.prompt["summary"].startswith("APP-1042: 240000 EUR over 25 years")


def test_every_outside_call_carries_its_steps_key_and_no_other_step_calls(stub: StubApis) -> None:
    Run().go({"approved": True})
    report = stub.calls()
    assert {key.removeprefix("key-") for key in report["keys"]} == CALLING
    assert len(report["calls"]) == len(CALLING)
    assert all((key["raw"], key["effects"]) == (1, 1) for key in report["keys"].values())
    assert {call["application"] for call in report["calls"]} == {"APP-1042"}


def test_a_redelivered_step_asks_under_the_same_key_and_returns_the_same(stub: StubApis) -> None:
    run = Run().go({"approved": True})
    for name, state in run.states.items():
        step, call = intake.steps[name], FakeCall(key=f"key-{name}", attempt=2)
        assert step.function(state.model_copy(deep=True), call) == step.function(state.model_copy(deep=True), call)
    assert {(key["raw"], key["effects"]) for key in stub.calls()["keys"].values()} == {(3, 1)}


def test_two_runs_of_one_application_agree(stub: StubApis) -> None:
    assert Run().go({"approved": True}).state == Run().go({"approved": True}).state


def test_the_28_calling_steps_retry_what_is_down() -> None:
    assert len(CALLING) == 28
    assert all(intake.steps[name].retry.attempts >= 5 for name in CALLING)


def test_third_parties_have_a_queue_to_themselves() -> None:
    assert {name for name, step in intake.steps.items() if step.queue == "slow-api"} == THIRD_PARTIES


def test_an_empty_document_fails_the_application() -> None:
    state = Intake(application="APP-1", documents=[Document(name="passport", ref="vault://1", pages=0, sha256="")])
    assert intake.steps["check_completeness"].function(state, FakeCall(key="k")).why.endswith("passport")


def test_papers_of_another_applicant_raise_a_flag() -> None:
    state = good(spending_fields={"applicant": "PERSON-2"})
    update = intake.steps["check_consistency"].function(state, FakeCall(key="k"))
    assert update == {"flags": ["spending: another applicant"]}


# ------------------------------------------------------------------------------------------------------- arithmetic
def test_a_loan_of_100000_over_20_years_at_6_per_cent_costs_716_a_month() -> None:
    assert lending.monthly_payment(100_000, 20, 600) == 716
    assert lending.monthly_payment(120_000, 10, 0) == 1_000


def test_averages_round_down_and_know_no_months() -> None:
    assert lending.average([1, 2, 2]) == 1
    assert lending.average([]) == 0


GOOD = {
    "application": "APP-1",
    "loan": 200_000,
    "property_fields": {"valuation": 400_000},
    "identity": {"reference": "I", "verified": True},
    "credit": {"reference": "C", "rating": 800, "monthly_debt": 100},
    "sanctions": {"reference": "S", "hits": 0},
    "registry_extract": {"reference": "R", "owner_confirmed": True, "charges": 0},
    "monthly_income": 5_000,
    "monthly_spending": 1_500,
    "monthly_payment": 1_400,
    "affordability": 40,
    "loan_to_value": 50,
}


def good(**changes: Any) -> Intake:
    return Intake.model_validate({**GOOD, **changes})


def test_a_good_application_has_no_flags_and_the_best_rate() -> None:
    assert lending.affordability(good()) == 40
    assert lending.loan_to_value(good()) == 50
    assert lending.red_flags(good()) == []
    assert lending.title_problems(good()) == []
    assert lending.score(good()) == 100
    assert lending.rate(good(score=100)) == 320


@pytest.mark.parametrize(
    ("changes", "flag"),
    [
        ({"identity": None}, "identity not verified"),
        ({"sanctions": {"reference": "S", "hits": 1}}, "sanctions list hit"),
        ({"credit": {"reference": "C", "rating": 599, "monthly_debt": 0}}, "weak credit rating"),
        ({"affordability": 9}, "little money left over"),
        ({"loan_to_value": 86}, "loan above 85 % of the value"),
    ],
)
def test_each_weakness_raises_its_flag(changes: dict[str, Any], flag: str) -> None:
    assert lending.red_flags(good(**changes)) == [flag]


def test_a_score_stays_between_0_and_100() -> None:
    assert lending.score(Intake(application="APP-1", affordability=-300, loan_to_value=200)) == 0


@pytest.mark.parametrize(
    ("extract", "problems"),
    [
        (None, ["no registry extract"]),
        (
            {"reference": "R", "owner_confirmed": False, "charges": 2},
            ["the seller is not the registered owner", "2 older charge(s) on the title"],
        ),
    ],
)
def test_the_registrys_objections_are_said_in_words(extract: dict[str, Any] | None, problems: list[str]) -> None:
    assert lending.title_problems(good(registry_extract=extract)) == problems
