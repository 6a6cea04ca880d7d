"""Inline continuation: the commit takes the next step's lease, and everything else about a step stays as it is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from keepstep import Client, DefinitionError, Workflow
from keepstep.checkpoint import commits
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.commits import Committed
from keepstep.checkpoint.database import Database
from keepstep.steps.decide import Returned, View, decide
from keepstep.workers.inline import Inline, slack
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import MAX, Hand
from tests.support.promises import kept
from tests.support.trace import Trace


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def onward(hand: Hand, claim: Claim, lease: UUID | None = None) -> Committed | None:
    decision = hand.decide(claim)
    stored = commits.weigh(claim, decision, max_state_bytes=MAX)
    return commits.commit(hand.db, claim, decision, stored, version=1, took=0.1, onward=lease or uuid4())


def test_the_next_step_is_claimed_by_the_same_process(hand: Hand, client: Client) -> None:
    claim = hand.claim(hand.start())
    following = onward(hand, claim).next
    case = client.get("ten", "A")
    assert (case.status, case.step, case.seq, case.attempt) == ("running", "s2", 1, 1)
    assert (following.delivery.seq, following.step, following.state) == (1, "s2", claim.state)
    assert following.lease != claim.lease
    assert hand.commit(following) is not None
    assert hand.commit(claim) == hand.commit(claim), "the first lease is over: its commit is known to have landed"


def test_a_lost_reply_goes_on_under_the_same_lease(hand: Hand) -> None:
    claim, lease = hand.claim(hand.start()), uuid4()
    first, again = onward(hand, claim, lease), onward(hand, claim, lease)
    assert first == again
    assert first.next.lease == lease


def test_a_case_that_is_paused_meanwhile_stops_behind_its_checkpoint(hand: Hand, client: Client) -> None:
    claim = hand.claim(hand.start())
    client.pause("ten", "A")
    assert onward(hand, claim) == Committed()
    case = client.get("ten", "A")
    assert (case.status, case.step, case.seq, case.attempt, case.paused) == ("queued", "s2", 1, 0, True)
    client.resume("ten", "A")
    assert hand.claim(case.id, 1)


def test_a_lost_reply_goes_on_though_the_case_was_paused_since(hand: Hand, client: Client) -> None:
    claim, lease = hand.claim(hand.start()), uuid4()
    onward(hand, claim, lease)
    client.pause("ten", "A")
    assert onward(hand, claim, lease).next.lease == lease, "it runs already"


def test_a_case_that_was_cancelled_meanwhile_is_late(hand: Hand, client: Client) -> None:
    claim = hand.claim(hand.start())
    client.cancel("ten", "A")
    assert onward(hand, claim) is None


class Clock:
    """An engine, as far as the budget asks it."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def inline_seconds(self, _workflow: str) -> float:
        return self.seconds


def goes_on(hand: Hand, *, seconds: float = 60, ends: bool = False, queue: str = "keepstep", timeout: int = 60) -> bool:
    workflow = Workflow("ten", state=flows.State, timeout=timedelta(seconds=60))
    workflow.step(name="s1")(lambda state, call: None)
    workflow.step(name="s2", queue=queue, timeout=timedelta(seconds=timeout))(lambda state, call: None)
    claim = hand.claim(hand.start("A", workflow))
    view = View(workflow=workflow, step=workflow.first, before=claim.state)
    decision = decide(view, Returned(value=None, copy=flows.State()))
    engine: Any = Clock(seconds)
    return Inline(engine, claim, lambda: ends, 60 + slack(seconds)).goes_on(claim, decision, None)


def test_who_goes_on(hand: Hand) -> None:
    assert goes_on(hand)


@pytest.mark.parametrize("why_not", [{"seconds": 0}, {"ends": True}, {"queue": "other"}, {"timeout": 62}])
def test_who_does_not(hand: Hand, why_not: dict[str, Any]) -> None:
    assert not goes_on(hand, **why_not)


@pytest.mark.parametrize("pool", ["prefork", "threads", pytest.param("solo", marks=pytest.mark.slow)])
def test_a_workflow_says_so_itself_and_its_quick_steps_need_one_message(
    client: Client, start_worker, trace: Trace, pool: str
) -> None:
    start_worker(pool=pool)
    client.start("quick", "A", {})
    client.wait("quick", "A", 30)
    kept(client, trace, "A", workflow="quick")
    assert len({line.pid for line in trace.lines("A")}) == 1


def test_a_budget_that_is_over_sends_a_message(client: Client, start_worker, trace: Trace) -> None:
    start_worker(env={"KEEPSTEP_INLINE_SECONDS": "0.5"})
    client.start("ten", "A", {"seconds": 1})
    client.wait("ten", "A", 30)
    kept(client, trace, "A")


@pytest.mark.slow
def test_operators_act_between_two_inlined_steps(client: Client, start_worker, trace: Trace) -> None:
    start_worker(env={"KEEPSTEP_INLINE_SECONDS": "60"})
    client.start("ten", "A", {"seconds": 2})
    eventually(lambda: trace.lines("A", "s5"), 20)
    client.pause("ten", "A")
    eventually(lambda: client.get("ten", "A").status == "queued", 20)
    assert client.get("ten", "A").step == "s6"
    client.resume("ten", "A")
    client.wait("ten", "A", 30)
    kept(client, trace, "A")


@pytest.mark.slow
def test_a_warm_shutdown_doesnt_wait_for_the_whole_case(client: Client, start_worker, trace: Trace) -> None:
    leaving = start_worker(env={"KEEPSTEP_INLINE_SECONDS": "60"})
    client.start("ten", "A", {"seconds": 2})
    eventually(lambda: trace.lines("A", "s5"), 20)
    assert leaving.stop() == 0
    start_worker()
    client.wait("ten", "A", 30)
    kept(client, trace, "A", twice={"s5"})


@pytest.mark.parametrize("given", [timedelta(0), "50ms", 5])
def test_a_budget_is_a_duration(given: Any) -> None:
    with pytest.raises(DefinitionError, match="inline"):
        Workflow("w", state=flows.State, inline=given)
