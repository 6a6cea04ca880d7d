"""Claiming and committing several cases in one statement: each case is treated as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import claims, commits, recovery
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.commits import Committed, Kept
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.recovery import Limits
from keepstep.checkpoint.ring import Delivery
from keepstep.config.settings import postgres_url
from tests.support.hand import MAX, Hand


@pytest.fixture(params=[True, False], ids=["prepared", "plain"])
def hand(request: pytest.FixtureRequest, database_url: str) -> Iterator[Hand]:
    database = Database(postgres_url(database_url), prepare=request.param)
    yield Hand(database)
    database.dispose()


def started(hand: Hand, *names: str) -> list[Delivery]:
    return [Delivery(case=ring.case, seq=0) for ring in (hand.start(name) for name in names)]


def claimed(hand: Hand, deliveries: list[Delivery], leases: list[UUID] | None = None) -> dict[str, Claim]:
    got = claims.claim_many(hand.db, deliveries, hand.claimant, leases or [uuid4() for _ in deliveries])
    return {claim.thread_id: claim for claim in got}


def kept(hand: Hand, claim: Claim, value: Any = None) -> Kept:
    decision = hand.decide(claim, value)
    stored = commits.weigh(claim, decision, max_state_bytes=MAX)
    assert stored is not None
    return Kept(claim=claim, decision=decision, stored=stored, version=1, took=0.01)


def committed(hand: Hand, *claims: Claim) -> dict[UUID, Committed]:
    return commits.commit_many(hand.db, [kept(hand, claim, {"value": claim.thread_id}) for claim in claims])


def test_all_are_claimed_and_each_goes_on_by_itself(hand: Hand, client: Client) -> None:
    first = claimed(hand, started(hand, "A", "B", "C"))
    assert {name: (c.step, c.attempt, c.state["log"]) for name, c in first.items()} == {
        name: ("s1", 1, []) for name in "ABC"
    }
    rings = [done.ring for done in committed(hand, *first.values()).values()]
    assert {(ring.thread_id, ring.seq, ring.step) for ring in rings if ring} == {(name, 1, "s2") for name in "ABC"}
    second = claimed(hand, [Delivery(case=ring.case, seq=ring.seq) for ring in rings if ring])
    assert {name: claim.state["value"] for name, claim in second.items()} == {name: name for name in "ABC"}


def test_they_write_what_one_by_one_writes(hand: Hand) -> None:
    together, alone = started(hand, "A", "B")
    commits.commit_many(hand.db, [kept(hand, claim, {"value": 7}) for claim in claimed(hand, [together]).values()])
    one = hand.claim(alone.case)
    assert one is not None
    hand.commit(one, {"value": 7})

    def written(case: UUID) -> list[dict[str, Any]]:
        found = []
        for table, key in (("heads", "id"), ("checkpoints", "case_id")):
            select = sa.text(f"select to_jsonb(t) as row from keepstep.{table} t where {key} = :id")
            rows = [row.row for row in hand.db.all(select, {"id": case})]
            found += [{name: value for name, value in row.items() if name not in OWN} for row in rows]
        return found

    assert written(together.case) == written(alone.case)


OWN = {"id", "case_id", "lease", "due_at", "entered_at", "started_at", "at"}
"""What differs between any two cases: identities and instants."""


def test_what_a_death_would_put_in_doubt_or_is_suspected_of_one_is_left_to_run_alone(
    hand: Hand, client: Client
) -> None:
    deliveries = started(hand, "plain", "hold", "crashed", "doubted", "paused", "newer", "moved")
    by_name = dict(zip(("plain", "hold", "crashed", "doubted", "paused", "newer", "moved"), deliveries, strict=True))
    change = {
        "hold": "in_doubt = 'hold'",
        "crashed": "crashes = 1",
        "doubted": f"doubt = '{uuid4()}'",
        "paused": "paused = true",
        "newer": "schema_version = 9",
        "moved": "seq = 4",
    }
    for name, what in change.items():
        hand.db.run(sa.text(f"update keepstep.heads set {what} where id = :id"), {"id": by_name[name].case})
    assert set(claimed(hand, deliveries)) == {"plain"}
    running = [case.thread_id for case in client.list(status="running")]
    assert running == ["plain"], "nothing else was changed"


def test_what_somebody_has_locked_is_passed_over_and_nobody_waits(hand: Hand, db: Database) -> None:
    deliveries = started(hand, "A", "B")
    with db.transaction() as other:
        other.execute(sa.text("select 1 from keepstep.heads where id = :id for update"), {"id": deliveries[0].case})
        assert set(claimed(hand, deliveries)) == {"B"}
    assert set(claimed(hand, deliveries)) == {"A"}


def test_a_lost_reply_claims_again_under_the_same_leases(hand: Hand) -> None:
    deliveries = started(hand, "A", "B")
    leases = [uuid4(), uuid4()]
    first, again = claimed(hand, deliveries, leases), claimed(hand, deliveries, leases)
    assert {(n, c.lease, c.attempt) for n, c in first.items()} == {(n, c.lease, c.attempt) for n, c in again.items()}
    assert claimed(hand, deliveries) == {}, "under other leases there is nothing to claim"


def test_one_that_has_lost_its_lease_takes_nobody_along(hand: Hand, client: Client) -> None:
    got = claimed(hand, started(hand, "A", "B", "C"))
    client.cancel("ten", "B")
    done = committed(hand, *got.values())
    assert set(done) == {got["A"].delivery.case, got["C"].delivery.case}
    assert client.get("ten", "B").status == "cancelled"
    assert committed(hand, *got.values()) == {}, "nor is anything written twice"
    assert [len(client.history("ten", name)) for name in "AC"] == [2, 2]


def test_one_that_is_paused_meanwhile_is_committed_and_not_rung(hand: Hand, client: Client) -> None:
    got = claimed(hand, started(hand, "A", "B"))
    client.pause("ten", "A")
    done = committed(hand, *got.values())
    assert done[got["A"].delivery.case].ring is None
    assert done[got["B"].delivery.case].ring is not None
    assert (client.get("ten", "A").step, client.get("ten", "A").paused) == ("s2", True)


def test_text_that_postgresql_does_not_take_apart_is_stored_as_it_is(hand: Hand, client: Client) -> None:
    claim = claimed(hand, started(hand, "A"))["A"]
    odd = "a\x00b \\ \" ' {}, null \u2028 \U0001f600"
    commits.commit_many(hand.db, [kept(hand, claim, {"value": odd})])
    assert client.state("ten", "A")["value"] == odd


def test_a_crash_in_company_is_charged_to_all_and_holds_nobody(hand: Hand, client: Client) -> None:
    limits = Limits(rows=100, max_crashes=1, max_node_deaths=5)
    claimed(hand, started(hand, "A", "B"))
    recovered = recovery.recover_executor(hand.db, hand.claimant.owner, hand.claimant.executor, limits)
    assert (len(recovered.rings), recovered.held) == (2, 0)
    [first, second] = [Delivery(case=ring.case, seq=ring.seq) for ring in recovered.rings]
    assert claimed(hand, [first, second]) == {}, "from now on each runs alone"
    assert hand.claim(first.case) is not None
    recovered = recovery.recover_executor(hand.db, hand.claimant.owner, hand.claimant.executor, limits)
    assert (len(recovered.rings), recovered.held) == (0, 1), "and is known by its own crash"


def onward(hand: Hand, leases: dict[str, UUID], *claims: Claim) -> dict[str, Committed]:
    these = [kept(hand, claim, {"value": 1})._replace(onward=leases[claim.thread_id]) for claim in claims]
    names = {claim.delivery.case: claim.thread_id for claim in claims}
    return {names[case]: done for case, done in commits.commit_many(hand.db, these).items()}


def test_the_next_leases_are_taken_with_the_commit_as_one_by_one(hand: Hand) -> None:
    got = claimed(hand, started(hand, "A", "B", "C"))
    leases = {name: uuid4() for name in got}
    together = onward(hand, leases, got["A"], got["B"])
    stored = commits.weigh(got["C"], hand.decide(got["C"], {"value": 1}), max_state_bytes=MAX)
    decision = hand.decide(got["C"], {"value": 1})
    alone = commits.commit(hand.db, got["C"], decision, stored, version=1, took=0.01, onward=leases["C"])
    assert alone is not None
    claims_of = {name: done.next for name, done in {**together, "C": alone}.items()}
    for name, claim in claims_of.items():
        assert claim is not None
        assert (claim.thread_id, claim.step, claim.delivery.seq, claim.attempt, claim.lease) == (
            name,
            "s2",
            1,
            1,
            leases[name],
        )
    heads = hand.db.all(sa.text("select to_jsonb(h) as row from keepstep.heads h"))
    own = OWN | {"deadline"}
    assert len({str(sorted((k, v) for k, v in head.row.items() if k not in own)) for head in heads}) == 1
    assert set(committed(hand, *(c for c in claims_of.values() if c))) == {c.delivery.case for c in got.values()}


def test_of_those_that_go_on_one_is_paused_one_cancelled_and_one_unheard(hand: Hand, client: Client) -> None:
    got = claimed(hand, started(hand, "paused", "cancelled", "unheard", "plain"))
    leases = {name: uuid4() for name in got}
    client.pause("ten", "paused")
    client.cancel("ten", "cancelled")
    onward(hand, leases, got["unheard"])
    done = onward(hand, leases, *got.values())
    assert {name: committed.next and committed.next.lease for name, committed in done.items()} == {
        "paused": None,
        "unheard": leases["unheard"],
        "plain": leases["plain"],
    }
    case = client.get("ten", "paused")
    assert (case.status, case.step, case.attempt, case.paused) == ("queued", "s2", 0, True)
    steps = {name: [e.kind for e in client.history("ten", name)].count("step") for name in got}
    assert steps == {"paused": 1, "cancelled": 0, "unheard": 1, "plain": 1}


def test_cases_end_in_company_as_they_end_alone(hand: Hand, client: Client) -> None:
    deliveries = started(hand, "A", "B", "C", "going")
    for seq in range(9):
        for delivery in deliveries[:3]:
            hand.step(delivery.case, seq)
    last = [Delivery(case=d.case, seq=9) for d in deliveries[:2]]
    got = claimed(hand, [*last, deliveries[3]])
    done = committed(hand, *got.values())
    assert {name: done[got[name].delivery.case].ring is None for name in got} == {"A": True, "B": True, "going": False}
    hand.step(deliveries[2].case, 9, {"value": "C"})
    assert [client.get("ten", name).status for name in ("A", "B", "C", "going")] == ["completed"] * 3 + ["queued"]

    def written(name: str) -> Any:
        case = client.get("ten", name).id
        row = hand.db.all(sa.text("select to_jsonb(c) as row from keepstep.cases c where id = :id"), {"id": case})[
            0
        ].row
        events = [(e.seq, e.kind, e.step) for e in client.history("ten", name)]
        return {k: v for k, v in row.items() if v is not None and k not in UNLIKE}, events

    assert written("A") == written("B") == written("C")
    assert committed(hand, *got.values()) == {}, "nothing is written twice"


UNLIKE = {"id", "run", "thread_id", "started_at", "created_at", "finished_at", "expires_at"}
