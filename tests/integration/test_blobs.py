"""Large values in the database: once each, and a case of which one is missing is held with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import commits
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import CheckpointDamaged
from tests import flows
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.hand import Hand
from tests.support.stages import WF, ask

LARGE = 4096
TEXT = "geheim " * 1000


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def stored(db: Database) -> int:
    return int(db.all(sa.text("select count(*) as n from keepstep.blobs"))[0].n)


def step(hand: Hand, claim: Claim | None, value: Any, large: int = LARGE) -> Claim | None:
    """Commit with a low threshold; the next claim."""
    assert claim is not None
    decision = hand.decide(claim, value)
    link = commits.weigh(claim, decision, max_state_bytes=10**6, large=large)
    assert commits.commit(hand.db, claim, decision, link, version=1, took=0.1)
    return hand.claim(claim.delivery.case, claim.delivery.seq + 1)


def test_a_large_value_is_stored_once_for_a_case_and_loaded_with_it(client: Client, hand: Hand, db: Database) -> None:
    claim = step(hand, hand.claim(hand.start("A")), {"log": [TEXT]})
    assert claim is not None
    assert claim.state is not None
    assert claim.state["log"] == [TEXT]
    assert len(claim.parked) == 1
    claim = step(hand, claim, {"log": [TEXT, "again", TEXT]})
    assert stored(db) == 1
    payloads = db.all(sa.text("select max(octet_length(payload::text)) as n from keepstep.checkpoints"))[0].n
    assert payloads < 300
    assert client.get("ten", "A").state["log"] == [TEXT, "again", TEXT]
    assert client.state("ten", "A", seq=1)["log"] == [TEXT]
    assert client.diff("ten", "A", 1, 2)[-1]["value"] == TEXT


def test_a_case_without_large_values_pays_no_statement(hand: Hand, db: Database) -> None:
    seen: list[str] = []
    sa.event.listen(db.engine, "before_cursor_execute", lambda *a: seen.append(a[2]))
    claim = step(hand, hand.claim(hand.start("A")), {"log": ["small"]})
    assert not [statement for statement in seen if "blobs" in statement]
    seen.clear()
    step(hand, claim, {"log": [TEXT]})
    assert len([statement for statement in seen if "blobs" in statement]) == 2, "one to keep it, one to load it"


def test_start_signal_and_an_operators_verb_store_large_values_too(client: Client, hand: Hand, db: Database) -> None:
    huge = "h" * 100_000
    client.start(flows.approve, "A", {"log": [huge]})
    assert stored(db) == 1
    case = client.get(WF, "A").id
    assert step(hand, hand.claim(case), ask()) is None
    client.signal(WF, "A", "approval", {"approved": True, "note": huge + "!"})
    assert stored(db) == 2
    assert client.get(WF, "A").state["approval"]["note"] == huge + "!"
    assert client.rewind(WF, "A", to=0, repeat_effects=True).seq == 3
    assert stored(db) == 2, "the same value, written again by hand"
    client.fork(WF, "A", at=0, new_thread_id="B", repeat_effects=True)
    assert stored(db) == 3, "a fork has its own"
    assert client.get(WF, "B").state["log"] == [huge]


def test_what_looks_like_a_reference_is_a_value(client: Client, hand: Hand) -> None:
    client.start(flows.approve, "A", {})
    assert step(hand, hand.claim(client.get(WF, "A").id), ask()) is None
    client.signal(WF, "A", "approval", {"approved": True, "note": '{"$blob": "x"}'})
    assert client.get(WF, "A").state["approval"]["note"] == '{"$blob": "x"}'


def test_a_missing_value_is_damage_to_whoever_looks(client: Client, hand: Hand, db: Database) -> None:
    step(hand, hand.claim(hand.start("A")), {"log": [TEXT]})
    db.run(sa.text("delete from keepstep.blobs"), {})
    with pytest.raises(CheckpointDamaged, match="large values"):
        client.get("ten", "A")


DAMAGE = {
    "a large value that vanished": "delete from keepstep.blobs where case_id = :id",
    "a gap": "delete from keepstep.checkpoints where case_id = :id and seq = 1",
    "a missing snapshot": "delete from keepstep.checkpoints where case_id = :id and seq = 0",
    "a delta that doesn't apply": """update keepstep.checkpoints
        set payload = '[{"op": "replace", "path": "/nowhere/1", "value": 1}]' where case_id = :id and seq = 1""",
    "a delta that is none": "update keepstep.checkpoints set payload = '7' where case_id = :id and seq = 2",
}


@pytest.mark.slow
def test_a_damaged_case_is_held_with_the_reason_and_others_go_on(
    client: Client, hand: Hand, db: Database, start_worker: StartWorker
) -> None:
    for thread_id, damage in [*DAMAGE.items(), ("well", None)]:
        claim = step(hand, hand.claim(hand.start(thread_id)), {"log": [TEXT]})
        claim = step(hand, claim, {"log": [TEXT, "b"]})
        assert claim is not None
        db.run(sa.text("update keepstep.heads set status = 'queued', lease = null"), {})
        if damage is not None:
            db.run(sa.text(damage), {"id": claim.delivery.case})
    db.run(sa.text("update keepstep.heads set due_at = clock_timestamp()"), {})
    start_worker()
    eventually(lambda: client.counts() == {"completed": 1, "held": len(DAMAGE)}, 20)
    reasons = {case.thread_id: case.reason for case in client.list(status="held")}
    assert {reason["type"] for reason in reasons.values() if reason} == {"CheckpointDamaged"}
    assert {reason["why"] for reason in reasons.values() if reason} == {"damaged checkpoint"}
    missing = reasons["a large value that vanished"]
    assert missing is not None
    assert "1 large values of the state are missing" in missing["message"]
