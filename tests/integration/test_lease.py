"""The lease is the fence: who holds it may write, everybody else is told that nothing was written."""

from __future__ import annotations

import dataclasses
import threading
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import goto
from keepstep.checkpoint import claims, commits, reads, recovery, steering
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.steered import Order
from keepstep.steps.decide import hold
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def test_only_one_of_two_claims_gets_the_lease(hand: Hand, db: Database) -> None:
    ring = hand.start()
    assert hand.claim(ring) is not None
    assert Hand(db).claim(ring) is None


def test_a_claim_whose_reply_was_lost_recognises_itself(hand: Hand) -> None:
    ring, lease = hand.start(), uuid4()
    first, again = hand.claim(ring, lease=lease), hand.claim(ring, lease=lease)
    assert first is not None
    assert again is not None
    assert first.attempt == again.attempt == 1


def test_a_stale_or_future_delivery_is_dropped(hand: Hand) -> None:
    ring = hand.start()
    assert hand.claim(ring, seq=1) is None
    hand.step(ring, 0)
    assert hand.claim(ring, seq=0) is None
    assert hand.claim(ring, seq=1) is not None


def test_a_paused_case_is_not_claimed(hand: Hand, db: Database) -> None:
    ring = hand.start()
    db.run(sa.text("update keepstep.heads set paused = true"), {})
    assert hand.claim(ring) is None


def test_a_case_newer_than_the_worker_is_left_to_newer_workers(hand: Hand, db: Database) -> None:
    ring = hand.start()
    db.run(sa.text("update keepstep.heads set schema_version = 2"), {})
    assert hand.claim(ring) is None
    assert Hand(db, known='{"ten": 2}').claim(ring) is not None


def test_a_worker_without_the_workflow_does_not_claim(hand: Hand, db: Database) -> None:
    ring = hand.start()
    assert Hand(db, known='{"other": 1}').claim(ring) is None


def test_a_commit_whose_reply_was_lost_is_recognised(hand: Hand) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    first, again = hand.commit(claim), hand.commit(claim)
    assert first == again
    assert first.ring.seq == 1


@pytest.mark.parametrize("taken", ["recovered", "held", "cancelled"])
def test_an_attempt_that_lost_its_lease_cannot_commit_its_checkpoint(hand: Hand, db: Database, taken: str) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    if taken == "recovered":
        recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True)
        assert Hand(db).claim(ring) is not None
    elif taken == "held":
        db.run(sa.text("""update keepstep.heads set status = 'held', lease = null, reason = '{}'"""), {})
    else:
        db.run(sa.text("delete from keepstep.heads"), {})
    assert hand.commit(claim) is None
    assert hand.commit(claim, decision=hold("why", {})) is None
    assert [e.kind for e in reads.history(db, ring.case) if e.kind == "step"] == []


def test_a_late_result_leaves_a_trace_and_none_for_a_case_that_is_gone(hand: Hand, db: Database) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    decision = hand.decide(claim)
    commits.record_late(db, claim, decision)
    assert [e.kind for e in reads.history(db, ring.case)] == ["start", "late"]
    db.run(sa.text("delete from keepstep.attempts; delete from keepstep.cases"), {})
    commits.record_late(db, claim, decision)
    assert reads.history(db, ring.case)[1:] == []


def test_a_lost_claim_is_taken_again_under_its_own_lease_but_not_from_somebody_else(hand: Hand, db: Database) -> None:
    """The database crashed before the claim was durable: the head is queued as if nobody had claimed it."""
    ring = hand.start()
    claim = hand.claim(ring)
    recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True)
    assert hand.commit(claim) is None
    assert hand.claim(ring, lease=claim.lease) is not None
    assert hand.commit(claim) is not None
    ring = hand.start("B")
    claim = hand.claim(ring)
    recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True)
    assert Hand(db).claim(ring) is not None
    assert hand.claim(ring, lease=claim.lease) is None


def test_a_recovery_that_meets_a_commit_waits_for_nobody_and_loses(hand: Hand, db: Database) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    with db.transaction() as committing:
        committing.execute(sa.text("select 1 from keepstep.heads for update"))
        assert recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True).rings == []
    assert hand.commit(claim) is not None


def test_of_two_commits_at_once_exactly_one_lands(hand: Hand, db: Database) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    results: list[object] = []
    with db.transaction() as first:
        first.execute(sa.text("select 1 from keepstep.heads for update"))
        threads = [
            threading.Thread(target=lambda v=v: results.append(hand.commit(claim, {"value": v}))) for v in range(2)
        ]
        for thread in threads:
            thread.start()
        blocked = sa.text(
            "select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        eventually(lambda: db.all(blocked)[0].n == 2, message="both commits really block")
    for thread in threads:
        thread.join(10)
    assert len([e for e in reads.history(db, ring.case) if e.kind == "step"]) == 1
    assert results == [results[0]] * 2, "one lease: the second is taken for the first whose reply was lost"


def test_crashes_and_node_deaths_are_counted_apart(hand: Hand, db: Database) -> None:
    ring = hand.start()
    for _ in range(1, LIMITS.max_node_deaths):
        hand.claim(ring)
        assert len(recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True).rings) == 1
    hand.claim(ring)
    assert len(recovery.recover_executor(db, hand.claimant.owner, "1:1", LIMITS).rings) == 1, "deploys are no crashes"
    hand.claim(ring)
    assert recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True).held == 1
    steering.retry(db, "ten", "A", Order(), lambda: flows.ten)
    claim = hand.claim(ring)
    assert claim.attempt == LIMITS.max_node_deaths + 2, "attempts go on counting, for people"


def test_the_counters_start_anew_with_each_step(hand: Hand, db: Database) -> None:
    ring = hand.start()
    hand.claim(ring)
    recovery.recover_executor(db, hand.claimant.owner, "1:1", LIMITS)
    hand.step(ring, 0)
    case = reads.get(db, ring.case)
    assert (case.crashes, case.failures, case.attempt) == (0, 0, 0)


def test_a_loop_has_a_new_seq_and_key_on_each_visit(hand: Hand, db: Database) -> None:
    from keepstep.steps.keys import idempotency_key

    ring = hand.start()
    hand.step(ring, 0, goto("s1"))
    hand.step(ring, 1, goto("s1"))
    run = reads.get(db, ring.case).run
    assert idempotency_key(run, 0, "s1") != idempotency_key(run, 1, "s1")


def test_a_damaged_chain_is_told_by_the_claim_and_others_go_on(hand: Hand, db: Database) -> None:
    ring, other = hand.start(), hand.start("B")
    hand.step(ring, 0, {"log": ["x" * 5000]})
    hand.step(ring, 1, {"seconds": 2})
    db.run(sa.text("delete from keepstep.checkpoints where case_id = :id and seq = 0"), {"id": ring.case})
    claim = hand.claim(ring, 2)
    assert claim.state is None
    assert "without a snapshot" in str(claim.damage)
    assert hand.claim(other).state is not None


def test_a_head_knows_nothing_that_the_schema_forbids(hand: Hand, db: Database) -> None:
    hand.start()
    for change in (
        "status = 'running'",
        "status = 'nonsense'",
        "seq = -1",
        "step = ''",
        "status = 'held'",
        "timeout = 0",
    ):
        with pytest.raises(sa.exc.IntegrityError):
            db.run(sa.text(f"update keepstep.heads set {change}"), {})


def test_a_claim_is_fenced_by_identity_not_by_number(hand: Hand) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    forged = dataclasses.replace(claim, lease=uuid4())
    assert hand.commit(forged) is None
    assert hand.commit(claim) is not None
    assert flows.ten.first.name == "s1"


def test_a_late_result_never_crosses_into_another_run(hand: Hand, db: Database) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True)
    assert claims.claim_again(db, claim), "nobody else has claimed it"
    recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True)
    for table in ("cases", "heads", "checkpoints"):
        db.run(sa.text(f"delete from keepstep.{table}"), {})
    hand.start()
    assert not claims.claim_again(db, claim)


def test_a_late_result_is_kept_with_what_it_changed(hand: Hand, db: Database) -> None:
    ring = hand.start()
    claim = hand.claim(ring)
    commits.record_late(db, claim, hand.decide(claim, {"value": "receipt 7"}))
    [late] = [e for e in reads.history(db, ring.case) if e.kind == "late"]
    assert late.detail["error"]["change"] == [{"op": "replace", "path": "/value", "value": "receipt 7"}]
