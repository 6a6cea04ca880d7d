"""Two acts at once on one case, the second really blocked by the first: one wins, and the loser is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import claims, recovery, retention, waits
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.signals import Receipt
from keepstep.checkpoint.sql import steering as sql
from keepstep.steps.keys import case_id
from tests import flows
from tests.support.hand import LIMITS, Hand
from tests.support.stages import WF, ask, bring, while_locked

ENDED = "select 1 from keepstep.cases for update"


@dataclass
class Stage:
    """One case, and everybody who may act on it."""

    client: Client
    hand: Hand
    db: Database
    ring: Ring
    claim: Claim | None = None

    def seq(self) -> int:
        return self.client.get(WF, "A").seq


ACTS: dict[str, Callable[[Stage], Any]] = {
    "cancel": lambda s: s.client.cancel(WF, "A"),
    "pause": lambda s: s.client.pause(WF, "A"),
    "resume": lambda s: s.client.resume(WF, "A"),
    "retry": lambda s: s.client.retry(WF, "A"),
    "retry --new-key": lambda s: s.client.retry(WF, "A", new_key=True, repeat_effects=True),
    "skip": lambda s: s.client.skip(WF, "A"),
    "rewind": lambda s: s.client.rewind(WF, "A", to=0, repeat_effects=True),
    "restart": lambda s: s.client.restart(WF, "A", repeat_effects=True),
    "signal": lambda s: s.client.signal(WF, "A", "approval", {"approved": True}),
    "claim": lambda s: s.hand.claim(s.ring),
    "commit": lambda s: s.hand.commit(s.claim, {"value": 1}),
    "take again": lambda s: claims.claim_again(s.db, s.claim) or None,
    "deliver": lambda s: waits.deliver(s.db, s.ring.case),
    "expire": lambda s: waits.expire(s.db, s.ring.case),
}

PAIRS = [
    # status, the first, the second: what the first gets, what the second gets, and how the case stands afterwards
    ("waiting", "cancel", "signal", "done", "CaseFinished", "cancelled", 1),
    ("waiting", "signal", "cancel", "delivered", "done", "cancelled", 2),
    ("waiting", "skip", "signal", "done", "kept", "queued", 2),
    ("waiting", "signal", "skip", "delivered", "MovedOn", "queued", 2),
    ("waiting", "rewind", "signal", "done", "kept", "queued", 2),
    ("waiting", "signal", "rewind", "delivered", "MovedOn", "queued", 2),
    ("waiting", "restart", "signal", "done", "kept", "queued", 2),
    ("waiting", "cancel", "deliver", "done", "nothing", "cancelled", 1),
    ("waiting", "cancel", "expire", "done", "nothing", "cancelled", 1),
    ("waiting", "rewind", "expire", "done", "nothing", "queued", 2),
    ("running", "cancel", "commit", "done", "nothing", "cancelled", 0),
    ("running", "commit", "cancel", "done", "done", "cancelled", 1),
    ("running", "rewind", "commit", "done", "nothing", "queued", 1),
    ("running", "commit", "rewind", "done", "MovedOn", "queued", 1),
    ("running", "skip", "commit", "done", "nothing", "queued", 1),
    ("running", "commit", "skip", "done", "MovedOn", "queued", 1),
    ("running", "restart", "commit", "done", "nothing", "queued", 1),
    ("running", "commit", "restart", "done", "MovedOn", "queued", 1),
    ("running", "pause", "commit", "done", "done", "queued", 1),
    ("running", "commit", "pause", "done", "done", "queued", 1),
    ("running", "commit", "retry", "done", "NotRetryable", "queued", 1),
    ("queued", "pause", "claim", "done", "nothing", "queued", 0),
    ("queued", "claim", "pause", "done", "done", "running", 0),
    ("queued", "cancel", "claim", "done", "nothing", "cancelled", 0),
    ("queued", "claim", "cancel", "done", "done", "cancelled", 0),
    ("queued", "rewind", "claim", "done", "nothing", "queued", 1),
    ("queued", "skip", "claim", "done", "nothing", "queued", 1),
    ("queued", "restart", "claim", "done", "nothing", "queued", 1),
    ("queued", "cancel", "cancel", "done", "NotCancellable", "cancelled", 0),
    ("queued", "pause", "pause", "done", "NotPausable", "queued", 0),
    ("queued", "pause", "cancel", "done", "done", "cancelled", 0),
    ("queued", "cancel", "pause", "done", "NotPausable", "cancelled", 0),
    ("queued", "skip", "skip", "done", "MovedOn", "queued", 1),
    ("queued", "rewind", "rewind", "done", "MovedOn", "queued", 1),
    ("queued", "rewind", "restart", "done", "MovedOn", "queued", 1),
    ("queued", "cancel", "rewind", "done", "MovedOn", "cancelled", 0),
    ("queued", "cancel", "skip", "done", "MovedOn", "cancelled", 0),
    ("queued", "rewind", "cancel", "done", "done", "cancelled", 1),
    ("held", "retry", "retry", "done", "NotRetryable", "queued", 0),
    ("held", "retry", "retry --new-key", "done", "NotRetryable", "queued", 0),
    ("held", "retry --new-key", "retry", "done", "NotRetryable", "queued", 1),
    ("held", "retry", "cancel", "done", "done", "cancelled", 0),
    ("held", "cancel", "retry", "done", "NotRetryable", "cancelled", 0),
    ("held", "skip", "retry", "done", "NotRetryable", "queued", 1),
    ("failed", "retry", "retry", "done", "NotRetryable", "queued", 0),
    ("failed", "retry --new-key", "rewind", "done", "MovedOn", "queued", 1),
    ("failed", "rewind", "retry", "done", "NotRetryable", "queued", 1),
    ("failed", "skip", "skip", "done", "MovedOn", "queued", 1),
    ("completed", "restart", "restart", "done", "MovedOn", "queued", 2),
    ("completed", "rewind", "cancel", "done", "done", "cancelled", 2),
]


def said(result: Any) -> str:
    if isinstance(result, Exception):
        return type(result).__name__
    if isinstance(result, Receipt):
        return result.fate
    return "nothing" if result is None else "done"


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def staged(client: Client, hand: Hand, db: Database, status: str) -> Stage:
    if status != "running":
        return Stage(client, hand, db, bring(hand, client, status))
    ring = hand.start("A", flows.approve)
    return Stage(client, hand, db, ring, hand.claim(ring))


@pytest.mark.parametrize(
    ("status", "first", "second", "gets", "told", "then", "seq"), PAIRS, ids=lambda v: str(v).replace(" ", "")
)
def test_of_two_at_once_one_wins_and_the_other_is_told(
    client: Client, hand: Hand, db: Database, status: str, first: str, second: str, gets: str, told: str,
    then: str, seq: int,
) -> None:  # fmt: skip
    stage = staged(client, hand, db, status)
    lock = "select 1 from keepstep.heads for update"
    results = while_locked(
        db,
        [lambda: ACTS[first](stage), lambda: ACTS[second](stage)],
        ENDED if status in ("failed", "completed") else lock,
    )
    assert [said(r) for r in results] == [gets, told], results
    case = client.get(WF, "A")
    assert (case.status, case.seq) == (then, seq)
    written = [e.seq for e in client.history(WF, "A") if e.kind in ("start", "step", "signal", "skip", "rewind")]
    assert written == list(range(seq + 1)), "one checkpoint for each seq, without a gap"
    done = sum(r == "done" for r, act in ((gets, first), (told, second)) if act not in ("claim", "commit"))
    assert len([e for e in client.history(WF, "A") if e.kind == "audit"]) == done


def test_a_late_worker_that_takes_its_lease_again_meets_a_verb(client: Client, hand: Hand, db: Database) -> None:
    """The database lost the claim; the worker comes back with its result while an operator acts."""
    for number, (verb, order) in enumerate((v, o) for v in ("cancel", "rewind", "skip", "restart") for o in (0, 1)):
        for table in ("cases", "heads", "checkpoints", "attempts"):
            db.run(sa.text(f"delete from keepstep.{table}"), {})
        stage = staged(client, hand, db, "running")
        recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True)
        acts = [lambda s=stage, v=verb: ACTS[v](s), lambda s=stage: ACTS["take again"](s)]
        results = while_locked(db, acts[::-1] if order else acts)
        taken, steered = (results[0], results[1]) if order else (results[1], results[0])
        assert said(steered) == "done", (number, results)
        assert said(taken) == ("done" if order else "nothing")
        assert hand.commit(stage.claim, {"value": 1}) is None, "the verb has the last word either way"


@pytest.mark.parametrize("verb", ["cancel", "rewind", "pause", "resume"])
def test_the_sweep_waits_for_no_operator_and_finds_the_case_afterwards(
    client: Client, hand: Hand, db: Database, verb: str
) -> None:
    """The sweep passes over what is locked, so whoever steers is never kept by it, nor keeps it."""
    ring = bring(hand, client, "queued")
    if verb == "resume":
        client.pause(WF, "A")
    db.run(sa.text("insert into keepstep.nodes (id, host, host_id, process, lock_key, queues, workflows, pool,"
                   " concurrency, version) values (gen_random_uuid(), 'h', 'h', '1:1', 1, '[\"keepstep\"]',"
                   " '{\"approve\": 1}', 'solo', 1, '0')"), {})  # fmt: skip
    with db.transaction() as operator:
        operator.execute(sql.LOCK_HEAD, {"id": ring.case})
        if verb == "resume":
            operator.execute(sql.RESUME, {"id": ring.case})
        assert recovery.ring_again(db, ["keepstep"], LIMITS, ahead=60) == []
    if verb != "resume":
        ACTS[verb](Stage(client, hand, db, ring))
    rung = recovery.ring_again(db, ["keepstep"], LIMITS, ahead=60)
    assert [r.seq for r in rung] == {"cancel": [], "rewind": [1], "pause": [], "resume": [0]}[verb]


def test_a_recovery_waits_for_no_operator_and_takes_nothing_that_was_steered_away(
    client: Client, hand: Hand, db: Database
) -> None:
    stage = staged(client, hand, db, "running")
    with db.transaction() as operator:
        operator.execute(sql.LOCK_HEAD, {"id": stage.ring.case})
        assert recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True).rings == []
    client.rewind(WF, "A", to=0, repeat_effects=True)
    assert recovery.recover_nodes(db, [hand.claimant.owner], LIMITS, certain=True).rings == []


def test_what_retention_is_about_to_remove_is_revived_or_gone_but_never_half(
    client: Client, hand: Hand, db: Database
) -> None:
    ring = bring(hand, client, "failed")
    db.run(sa.text("update keepstep.cases set expires_at = clock_timestamp()"), {})
    with db.transaction() as operator:
        operator.execute(sql.LOCK_ENDED, {"id": ring.case})
        assert retention.prune(db, 10) == [], "it passes over what somebody revives"
    results = while_locked(db, [lambda: client.retry(WF, "A")], "delete from keepstep.cases")
    assert said(results[0]) == "done"
    assert retention.prune(db, 10) == []
    assert client.get(WF, "A").status == "queued"


def test_of_two_forks_into_one_thread_id_one_wins(client: Client, hand: Hand, db: Database) -> None:
    bring(hand, client, "waiting")
    taken = f"""insert into keepstep.cases (id, run, workflow, thread_id, input)
                values ('{case_id(WF, "B")}', gen_random_uuid(), '{WF}', 'B', '{{}}')"""
    fork = lambda: client.fork(WF, "A", at=1, new_thread_id="B")  # noqa: E731
    assert [said(r) for r in while_locked(db, [fork, fork], taken)] in (
        ["done", "CaseConflict"],
        ["CaseConflict", "done"],
    )
    assert client.get(WF, "B").status == "waiting"


def test_two_operators_of_different_cases_keep_each_other_by_nothing(client: Client, hand: Hand, db: Database) -> None:
    ring = bring(hand, client, "queued")
    bring(hand, client, "queued", "B")
    with db.transaction() as first:
        first.execute(sql.LOCK_HEAD, {"id": ring.case})
        assert client.cancel(WF, "B").status == "cancelled"


def test_a_wait_that_is_asked_again_takes_the_decision_that_is_sent_meanwhile(
    client: Client, hand: Hand, db: Database
) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask())
    stage = Stage(client, hand, db, ring)
    results = while_locked(db, [lambda: client.rewind(WF, "A", to=1), lambda: ACTS["signal"](stage)])
    assert [said(r) for r in results] == ["done", "delivered"]
    assert (client.get(WF, "A").step, client.get(WF, "A").seq) == ("act", 3)
