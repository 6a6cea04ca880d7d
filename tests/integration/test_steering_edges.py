"""Verbs where something else has changed meanwhile: the code, the case's retention, a pause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client, UnknownCase, Workflow
from keepstep.checkpoint import places
from keepstep.checkpoint.database import Database
from tests import flows
from tests.support.hand import Hand
from tests.support.stages import WF, bring


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def test_a_restart_is_under_todays_code(client: Client, db: Database, hand: Hand) -> None:
    """What a case keeps of its workflow, its retention and which events have hooks, is of the code that restarts it."""
    hand.start("A", flows.once)
    client.cancel("once", "A")
    newer = Workflow("once", state=flows.State, retention=timedelta(days=3))
    newer.step(name="only")(lambda state, call: None)
    with Client(settings=client.settings, workflows=[newer]) as today:
        assert today.start("once", "A", {}, if_exists="restart").restarted
    kept = db.one(sa.text("select retention, hooks from keepstep.cases"), {})
    assert (kept.retention, kept.hooks) == (dict.fromkeys(("completed", "failed", "cancelled"), 3 * 86400), None)
    client.restart("once", "A", repeat_effects=True)
    kept = db.one(sa.text("select retention, hooks from keepstep.cases"), {})
    assert (kept.retention, kept.hooks) == (None, ["completed", "failed", "held"])


def test_a_fork_of_a_case_that_has_just_been_pruned_says_that_it_is_gone(
    client: Client, hand: Hand, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(hand, client, "queued")
    found = places.there

    def pruned_after_the_look(*args: Any) -> Any:
        place = found(*args)
        db.run(sa.text("delete from keepstep.cases"), {})
        return place

    monkeypatch.setattr("keepstep.checkpoint.steering.there", pruned_after_the_look)
    with pytest.raises(UnknownCase, match="approve/A"):
        client.fork(WF, "A", at=0, new_thread_id="B", repeat_effects=True)


@pytest.mark.parametrize("how", ["its step ends", "retry", "rewind"])
def test_what_becomes_queued_while_it_is_paused_is_due_never(
    client: Client, hand: Hand, db: Database, how: str
) -> None:
    ring = bring(hand, client, "queued" if how == "its step ends" else "held")
    claim = hand.claim(ring)
    client.pause(WF, "A")
    if how == "retry":
        client.retry(WF, "A")
    elif how == "rewind":
        client.rewind(WF, "A", to=0, repeat_effects=True)
    else:
        hand.commit(claim, {"value": 1})
    due = sa.text("select status, due_at = 'infinity' as never from keepstep.heads")
    assert tuple(db.one(due, {})) == ("queued", True)
    client.resume(WF, "A")
    assert tuple(db.one(due, {})) == ("queued", False)
