"""What goes wrong in the middle of a batch: no lease is kept that nobody executes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from uuid import uuid4

import pytest

from keepstep import Client
from keepstep.checkpoint import claims
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Delivery
from keepstep.workers.batch import Batch, watched
from keepstep.workers.engine import Engine
from keepstep.workers.execute import execute_batch
from keepstep.workers.settle import Done, settle_many
from tests.support.hand import Hand
from tests.support.trace import Trace


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


@pytest.fixture
def engine(client: Client, db: Database) -> Iterator[Engine]:
    engine = Engine(settings=client.settings, db=db, registry=client.registry, bell=client._bell)
    yield engine
    engine.transactions.dispose()


def claimed(hand: Hand, *names: str) -> list[Claim]:
    deliveries = [Delivery(case=hand.start(name).case, seq=0) for name in names]
    return claims.claim_many(hand.db, deliveries, hand.claimant, [uuid4() for _ in deliveries])


def stands(client: Client, name: str) -> tuple[str, str, int]:
    case = client.get("ten", name)
    return case.status, case.step, case.attempt


def test_an_error_of_the_engine_leaves_no_lease_behind(hand: Hand, client: Client, engine: Engine) -> None:
    batch = Batch(engine, claimed(hand, "A", "B", "C"), lambda _claim, _decision: True)
    with suppress(ZeroDivisionError), watched(batch):
        done = batch.next()
        assert done is not None
        assert batch.keep(done, hand.decide(done), 0.001)
        assert batch.next() is not None
        _ = 1 / 0  # in the midst of the second one
    assert [stands(client, name) for name in "AC"] == [("queued", "s2", 0), ("queued", "s1", 0)]
    assert batch.next_claims == []


def test_a_decision_that_is_settled_again_is_recognised_by_the_lease_it_took(hand: Hand, engine: Engine) -> None:
    done = [
        Done(claim=claim, decision=hand.decide(claim), took=0.001, onward=uuid4())
        for claim in claimed(hand, "A", "B", "C")
    ]
    leases = [one.onward for one in done]
    for some in (done, done, done[:1]):  # together, after a lost reply, and alone, after one of them is refused
        found = [committed.next and committed.next.lease for committed in settle_many(engine, some)]
        assert found == leases[: len(some)]


def test_of_two_messages_that_name_the_same_step_one_tells_of_what_ran(
    hand: Hand, client: Client, db: Database, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEEPSTEP_TEST_TRACE", str(trace.path))
    settings = client.settings.model_copy(update={"inline_seconds": 60.0})
    engine = Engine(settings=settings, db=db, registry=client.registry, bell=client._bell)
    one, other = (Delivery(case=hand.start(name).case, seq=0) for name in "AB")
    stale = Delivery(case=hand.start("C").case, seq=7)
    told = execute_batch(engine, [one, other, stale, one], limit=7200.0)
    assert [None if ran is None else len(ran) for ran in told] == [10, 10, None, 0]
    assert client.counts("ten") == {"completed": 2, "queued": 1}
