"""A call in doubt: recovered by policy, verified as an attempt of its own, resolved by a late result or a person."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import claims, recovery
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.recovery import Running
from keepstep.testing.clock import Clock
from tests import doubt_flows, flows
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand
from tests.support.trace import Trace

HEAD = sa.text("select status, doubt, lease, verifications, crashes, paused from keepstep.heads where id = :id")
SETTLED = timedelta(seconds=LIMITS.settling + 1)


@pytest.fixture
def hand(clock: Clock, db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, *doubt_flows.ALL])
    return Hand(db, known='{"verified": 1, "held": 1}')


@pytest.fixture
def client(hand: Hand, database_url: str, broker_url: str):
    with Client(database_url, broker_url, workflows=doubt_flows.ALL) as client:
        yield client


def claimed(hand: Hand, workflow: Any = doubt_flows.verified) -> Claim:
    claim = hand.claim(hand.start("A", workflow))
    assert claim is not None
    return claim


def head(db: Database, claim: Claim) -> Any:
    return db.one(HEAD, {"id": claim.delivery.case})


def crash(hand: Hand) -> None:
    recovery.recover_executor(hand.db, hand.claimant.owner, hand.claimant.executor, LIMITS)


def fall_silent(hand: Hand) -> None:
    recovery.recover_nodes(hand.db, [hand.claimant.owner], LIMITS, certain=False)


def to_verify(hand: Hand, clock: Clock) -> Claim:
    """The attempt that verifies, after the one before died."""
    clock.advance(SETTLED)
    [ring] = recovery.wake(hand.db, LIMITS)
    claim = hand.claim(ring.case, ring.seq)
    assert claim is not None
    return claim


def test_after_certain_death_it_is_verified_by_an_attempt_of_its_own_once_it_has_settled(hand: Hand, clock, db) -> None:
    first = claimed(hand)
    crash(hand)
    assert (head(db, first).status, head(db, first).doubt) == ("sleeping", first.lease)
    assert recovery.wake(db, LIMITS) == [], "the outside system gets its time"
    verifying = to_verify(hand, clock)
    assert (verifying.doubt, verifying.attempt) == (first.lease, 2)
    assert verifying.lease != first.lease


def test_a_verification_that_dies_is_made_again_for_the_same_doubt(hand: Hand, clock: Clock, db: Database) -> None:
    first = claimed(hand)
    crash(hand)
    verifying = to_verify(hand, clock)
    fall_silent(hand)
    assert (head(db, first).status, head(db, first).doubt) == ("queued", first.lease), "a look-up may be repeated"
    again = hand.claim(verifying.delivery.case, 0)
    assert again.doubt == first.lease


def test_a_step_that_kills_its_worker_again_and_again_is_held_as_poison_and_still_in_doubt(hand, clock, db) -> None:
    first = claimed(hand)
    for _ in range(LIMITS.max_crashes - 1):
        crash(hand)
        clock.advance(SETTLED)
        recovery.wake(db, LIMITS)
        assert hand.claim(first.delivery.case, 0)
    crash(hand)
    assert (head(db, first).status, head(db, first).doubt) == ("held", first.lease)


@pytest.mark.parametrize("workflow", doubt_flows.ALL)
@pytest.mark.parametrize("how", ["silent", "overdue", "unowned", "orphaned"])
def test_after_mere_silence_a_person_is_asked(hand: Hand, clock: Clock, db: Database, client, workflow, how) -> None:
    claim = claimed(hand, workflow)
    if how == "silent":
        fall_silent(hand)
    elif how == "overdue":
        clock.advance(timedelta(hours=2))
        assert recovery.recover_overdue(db, LIMITS).held == 1
    elif how == "unowned":
        clock.advance(60)
        assert recovery.recover_unowned(db, LIMITS).held == 1
    else:
        running = Running(
            case=claim.delivery.case, lease=claim.lease, owner=hand.claimant.owner, executor="1:1", host_id=""
        )
        orphaned = {"charge": "crashes", "outcome": "orphaned", "message": "nobody executes it"}
        recovery.recover_leases(db, [running], LIMITS, certain=False, **orphaned)
    assert (head(db, claim).status, head(db, claim).doubt) == ("held", claim.lease)
    assert "in doubt" in client.get(workflow.name, "A").reason["why"]


@pytest.mark.parametrize("now", ["held", "sleeping", "queued", "paused"])
def test_a_late_result_of_the_attempt_in_doubt_resolves_it(hand: Hand, clock: Clock, db, client, now: str) -> None:
    claim = claimed(hand)
    if now in ("held", "paused"):
        fall_silent(hand)
    else:
        crash(hand)
    if now == "queued":
        clock.advance(SETTLED)
        recovery.wake(db, LIMITS)
    if now == "paused":
        client.pause("verified", "A")
    assert hand.commit(claim, {"receipt": "late"}) is None
    assert claims.claim_again(db, claim)
    committed = hand.commit(claim, {"receipt": "late"})
    assert (committed.ring is None) == (now == "paused")
    case = client.get("verified", "A")
    assert (case.status, case.step, case.state["receipt"], case.reason) == ("queued", "end", "late", None)
    assert head(db, claim).doubt is None


@pytest.mark.parametrize(
    "what", ["verifying", "another's doubt", "retried and claimed", "skipped", "rewound", "cancelled"]
)
def test_a_late_result_resolves_nothing_that_has_gone_on(hand: Hand, clock: Clock, db, client, what: str) -> None:
    claim = claimed(hand)
    if what == "verifying":
        crash(hand)
        to_verify(hand, clock)
    else:
        fall_silent(hand)
    if what in ("another's doubt", "retried and claimed"):
        client.retry("verified", "A")
        other = hand.claim(claim.delivery.case, 0)
        assert other.doubt is None, "the operator has settled it"
    if what == "another's doubt":
        fall_silent(hand)
    if what == "skipped":
        client.skip("verified", "A", update={"receipt": "by hand"})
    if what == "rewound":
        client.rewind("verified", "A", to=0, repeat_effects=True)
    if what == "cancelled":
        client.cancel("verified", "A")
    assert not claims.claim_again(db, claim)
    assert hand.commit(claim, {"receipt": "late"}) is None


def test_a_late_claim_whose_reply_was_lost_recognises_itself(hand: Hand, db: Database) -> None:
    claim = claimed(hand)
    fall_silent(hand)
    assert claims.claim_again(db, claim)
    assert claims.claim_again(db, claim), "its reply was lost"
    assert hand.commit(claim, {"receipt": "late"})


def test_a_claim_whose_reply_was_lost_recognises_itself_though_the_case_was_paused(hand: Hand, client: Client) -> None:
    first = claimed(hand)
    client.pause("verified", "A")
    assert hand.claim(first.delivery.case, 0, lease=first.lease)
    assert hand.commit(first).ring is None


def test_the_policy_of_the_code_that_calls_counts_not_that_of_the_code_before(
    client: Client, start_worker, trace: Trace, db: Database
) -> None:
    client.start("held", "A", {"raises": ["kill"]})
    db.run(sa.text("update keepstep.heads set in_doubt = 'retry'"), {})  # as an older version of the step was declared
    start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.doubt_flows"})
    eventually(lambda: client.get("held", "A").status == "held", 20)
    assert len(trace.lines("A", "pay")) == 1


@pytest.mark.parametrize("begun", [True, False])
def test_a_worker_that_ends_before_its_call_leaves_no_doubt(hand: Hand, db: Database, begun: bool) -> None:
    claim = claimed(hand, doubt_flows.held)
    recovery.release_lease(db, claim.delivery.case, claim.lease, LIMITS, begun=begun)
    assert head(db, claim).status == ("held" if begun else "queued")


def test_an_attempt_that_was_taken_away_writes_no_policy(hand: Hand, db: Database) -> None:
    claim = claimed(hand, doubt_flows.held)
    assert claims.tighten(db, claim, "hold")
    fall_silent(hand)
    assert not claims.tighten(db, claim, "hold"), "and so it makes no call"


def test_the_next_step_begins_without_a_doubt(hand: Hand, clock: Clock, db: Database) -> None:
    first = claimed(hand)
    crash(hand)
    verifying = to_verify(hand, clock)
    hand.commit(verifying, {"receipt": "found"})
    now = head(db, first)
    assert (now.status, now.doubt, now.verifications, now.crashes) == ("queued", None, 0, 0)


# ------------------------------------------------------------------------------------------------ with real workers
@pytest.fixture
def run(client: Client, start_worker, trace: Trace):
    """Start a case on a real worker; the case when it has ended or is held."""
    start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.doubt_flows", "KEEPSTEP_SETTLING_SECONDS": "0.2"})

    def run(workflow: str = "verified", **state: Any) -> Any:
        client.start(workflow, "A", state)
        return eventually(lambda: (c := client.get(workflow, "A")).status in ("completed", "held") and c, 30)

    return run


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_call_that_took_effect_is_found_and_not_made_again(run, client: Client, trace: Trace, how: str) -> None:
    case = run(raises=[how])
    assert (case.status, case.state["receipt"]) == ("completed", "found")
    assert len(trace.lines("A", "pay")) == 1
    assert [e.kind for e in client.history("verified", "A") if e.step == "pay"][-1] == "verify"


@pytest.mark.parametrize("how", ["raise", "kill"])
def test_a_call_that_took_none_is_made_again_under_its_key(run, trace: Trace, how: str) -> None:
    case = run(raises=[how], verdicts=["not done"])
    assert (case.status, case.state["receipt"]) == ("completed", "paid")
    assert len({line.key for line in trace.lines("A")}) == 1
    assert [line.step for line in trace.lines("A")] == ["pay", "verify", "pay"]


def test_a_verify_that_raises_and_kills_its_process_is_tried_again(run, trace: Trace) -> None:
    case = run(raises=["raise"], verdicts=["raise", "kill"])
    assert case.status == "completed"
    assert [line.step for line in trace.lines("A")] == ["pay", "verify", "verify", "verify"]


@pytest.mark.slow
def test_who_cannot_tell_leaves_it_to_a_person_and_the_state_as_it_was(run, client: Client, trace: Trace) -> None:
    case = run(raises=["kill"], verdicts=["unknown"])
    assert (case.status, case.state["receipt"], case.step) == ("held", "", "pay")
    client.skip("verified", "A", update={"receipt": "looked up by hand"})
    assert client.wait("verified", "A", 20).state["receipt"] == "looked up by hand"
    assert len(trace.lines("A", "pay")) == 1


@pytest.mark.slow
def test_a_verify_that_lies_is_believed_and_can_be_seen(run, client: Client) -> None:
    case = run(raises=["kill"], verdicts=["lie"])
    assert case.state["receipt"] == "made up"
    assert "verify" in {e.kind for e in client.history("verified", "A")}


@pytest.mark.slow
def test_under_hold_nothing_is_called_twice_without_a_person(run, client: Client, trace: Trace) -> None:
    assert run("held", raises=["kill"]).status == "held"
    client.retry("held", "A")
    assert client.wait("held", "A", 20).state["receipt"] == "paid"
    assert [line.step for line in trace.lines("A")] == ["pay", "pay"]


def test_why_says_what_a_person_should_look_at(hand: Hand, clock: Clock, client: Client) -> None:
    first = claimed(hand)
    fall_silent(hand)
    told = client.why("verified", "A")
    assert "in doubt" in told.sentence
    assert ["skip" in told.commands[0], "retry" in told.commands[1]] == [True, True]
    client.retry("verified", "A")
    hand.claim(first.delivery.case, 0)
    crash(hand)
    assert "its verify looks whether it did" in client.why("verified", "A").sentence
    verifying = to_verify(hand, clock)
    assert "verifying what became" in client.why("verified", "A").sentence
    hand.commit(verifying, {"receipt": "found"})
    assert "more than once" not in " ".join(client.why("verified", "A").details)


def test_why_names_the_steps_that_were_called_again_and_never_asked_for_their_key(
    client: Client, start_worker, hand: Hand, db: Database
) -> None:
    ring = hand.start("A", doubt_flows.held)
    hand.claim(ring)
    fall_silent(hand)
    client.retry("held", "A")
    again = hand.claim(ring.case, 0)
    hand.commit(again, decision=replace(hand.decide(again, {"receipt": "twice"}), key_read=False))
    assert "pay#0" in client.why("held", "A").details[-1]
