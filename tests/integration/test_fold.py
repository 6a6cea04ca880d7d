"""A case that lives for very long keeps its last checkpoints; what is older is folded into one."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow, goto
from keepstep.checkpoint import commits
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.fold import fold, is_due
from keepstep.steps import state as states
from keepstep.steps.decide import Returned, View, decide
from keepstep.steps.errors import NotRewindable, UnknownCheckpoint
from tests import flows
from tests.support.hand import Hand

KEEP = 5
loop = Workflow("loop", state=flows.State, keep_checkpoints=KEEP)


@loop.step
def again(_state: flows.State, _call: Any) -> None:
    """Goes round."""


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db, known='{"loop": 1}')


def go(hand: Hand, client: Client, steps: int, text: str = "") -> Claim:
    """Take the case so many steps on, as a worker does; the claim of the next one."""
    case = client.get(loop, "A")
    claim = hand.claim(case.id, case.seq)
    for _ in range(steps):
        assert claim is not None
        assert claim.state is not None
        copy = states.load(flows.State, claim.state)
        log = [f"{text}{claim.delivery.seq}"]
        view = View(workflow=loop, step=loop.first, before=claim.state)
        decision = decide(view, Returned(value=goto("again", log=log), copy=copy))
        due = is_due(claim, KEEP)
        stored = commits.weigh(claim, decision, max_state_bytes=10**6, snapshot=due, large=2048)
        assert commits.commit(hand.db, claim, decision, stored, version=1, took=0.1)
        claim = hand.claim(case.id, claim.delivery.seq + 1)
    assert claim is not None
    hand.db.run(sa.text("update keepstep.heads set status = 'queued', lease = null"), {})
    return claim


def seqs(db: Database) -> list[int]:
    return [row.seq for row in db.all(sa.text("select seq from keepstep.checkpoints order by seq"))]


def test_the_last_checkpoints_stay_and_the_case_goes_on_from_them(client: Client, hand: Hand, db: Database) -> None:
    client.start(loop, "A", {})
    for _ in range(6):
        claim = go(hand, client, 20)
        assert claim.state is not None
        assert claim.state["log"] == [str(claim.delivery.seq - 1)]
        fold(db, "loop", KEEP)
        kept = seqs(db)
        assert kept == list(range(kept[0], claim.delivery.seq + 1)), "no gap"
        assert KEEP < len(kept) <= 3 * KEEP
        for seq in kept:
            assert client.state(loop, "A", seq=seq)["log"] == [str(seq - 1)]
    with pytest.raises(UnknownCheckpoint):
        client.state(loop, "A", seq=3)
    with pytest.raises(NotRewindable):
        client.rewind(loop, "A", to=3, repeat_effects=True)
    oldest = seqs(db)[0]
    assert client.rewind(loop, "A", to=oldest, repeat_effects=True).seq == 121
    assert client.get(loop, "A").state["log"] == [str(oldest - 1)]


def test_what_belonged_to_the_past_goes_with_it_but_no_decision(client: Client, hand: Hand, db: Database) -> None:
    client.start(loop, "A", {})
    go(hand, client, 3, "x" * 3000)
    case = client.get(loop, "A").id
    for stream, key, name in ((True, None, "m"), (True, "k", "m"), (False, None, "decided")):
        sent = """insert into keepstep.signals (case_id, name, payload, stream, dedupe_key, consumed_seq)
                  values (:id, :name, '1', :stream, :key, 1)"""
        db.run(sa.text(sent), {"id": case, "name": name, "stream": stream, "key": key})
    blobs = sa.text("select count(*) as n from keepstep.blobs")
    assert db.all(blobs)[0].n == 3
    go(hand, client, 4 * KEEP)
    assert fold(db, "loop", KEEP) > 0
    assert db.all(blobs)[0].n == 0
    left = db.all(sa.text("select name, dedupe_key from keepstep.signals order by id"))
    assert [(row.name, row.dedupe_key) for row in left] == [("m", "k"), ("decided", None)]


def test_a_large_value_of_a_running_step_isnt_taken_away(client: Client, hand: Hand, db: Database) -> None:
    client.start(loop, "A", {})
    go(hand, client, 1, "x" * 3000)
    go(hand, client, 4 * KEEP)
    case = client.get(loop, "A")
    assert hand.claim(case.id, case.seq) is not None
    assert fold(db, "loop", KEEP) > 0
    assert db.all(sa.text("select count(*) as n from keepstep.blobs"))[0].n == 1


def test_other_workflows_and_short_cases_are_left_alone(client: Client, hand: Hand, db: Database) -> None:
    client.start(loop, "A", {})
    go(hand, client, 2 * KEEP - 1)
    assert fold(db, "loop", KEEP) == 0
    assert fold(db, "other", KEEP) == 0
    assert len(seqs(db)) == 2 * KEEP
