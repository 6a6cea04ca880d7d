"""Decisions: about what they are, how long they bind, and what a repetition is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import AlreadyDecided, Client, StaleDecision, errors, receive, wait_all, wait_any, wait_for
from keepstep.checkpoint import signals, waits
from keepstep.checkpoint.database import Database
from keepstep.steps.decide import hold
from tests import flows
from tests.support.hand import Hand
from tests.support.several import NO, YES, Ask, approval, asking, several


@pytest.fixture
def hand(db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, several])
    return Hand(db, known='{"several": 1}')


@pytest.fixture
def client(database_url: str, broker_url: str) -> Iterator[Client]:
    with Client(database_url, broker_url, workflows=[several]) as client:
        yield client


@pytest.fixture
def ask(hand: Hand) -> Ask:
    return asking(hand)


def refused(client: Client) -> list[str | None]:
    return [event.detail["refused"] for event in client.history("several", "A") if event.kind == "sent"]


# ------------------------------------------------------------------------------------------------ what is decided about
def test_a_decision_about_a_question_that_is_over_is_refused_and_not_kept_for_the_next(
    client: Client, hand: Hand, ask: Ask, db: Database
) -> None:
    ring = ask(wait_any(approval(prompt={"amount": 10}, then="after_a"), wait_for("b", into="b", then="after_b")))
    [shown] = [asked.digest for asked in client.inbox() if asked.name == "approval"]
    client.signal("several", "A", "b", 1)
    with pytest.raises(StaleDecision, match="isn't being asked now"):
        client.approve("several", "A", actor="ann", digest=shown)
    hand.step(ring, 2, approval(prompt={"amount": 10_000}))
    waits.deliver(db, ring.case)
    assert client.get("several", "A").status == "waiting"


def test_a_decision_with_a_digest_is_refused_before_anything_was_asked(client: Client, hand: Hand) -> None:
    hand.start("A", several)
    with pytest.raises(StaleDecision):
        client.approve("several", "A", actor="ann", digest="3f9a0c11d2e4")
    assert client.approve("several", "A", actor="ann").fate == "kept"


def test_a_decision_about_a_question_that_was_rewound_is_refused(client: Client, ask: Ask) -> None:
    ask(approval(prompt={"amount": 10}))
    shown = client.inbox()[0].digest
    client.rewind("several", "A", to=0, repeat_effects=True)
    with pytest.raises(StaleDecision):
        client.approve("several", "A", actor="ann", digest=shown)


def test_a_repetition_with_the_digest_of_the_answered_question_is_a_repetition(client: Client, ask: Ask) -> None:
    ask(approval(prompt={"amount": 10}))
    shown = client.inbox()[0].digest
    client.approve("several", "A", actor="ann", digest=shown)
    assert client.approve("several", "A", actor="ann", digest=shown).fate == "repeated"
    with pytest.raises(AlreadyDecided):
        client.reject("several", "A", actor="bob", digest=shown)


def test_an_early_decision_about_something_else_is_not_delivered(client: Client, hand: Hand, db: Database) -> None:
    """As another release's client may have kept one."""
    ring = hand.start("A", several)
    client.signal("several", "A", "approval", YES)
    db.run(sa.text("update keepstep.signals set digest = '3f9a0c11d2e4'"), {})
    hand.step(ring, 0, approval())
    assert waits.deliver(db, ring.case) is None
    assert client.get("several", "A").status == "waiting"
    assert "decides about 3f9a0c11d2e4" in refused(client)[0]


# ------------------------------------------------------------------------------------------- how long a decision binds
def decided(client: Client, hand: Hand, ask: Ask) -> Any:
    """Asked at 1, decided at 2, and two steps further."""
    ring = ask(approval())
    client.approve("several", "A", actor="ann")
    hand.step(ring, 2)
    hand.step(ring, 3)
    return ring


def test_a_decision_binds_after_a_retry_under_a_new_key(client: Client, hand: Hand, ask: Ask) -> None:
    ring = ask(approval())
    client.approve("several", "A", actor="ann")
    hand.commit(hand.claim(ring, 2), decision=hold("why", {"type": "OSError", "message": "m"}))
    client.retry("several", "A", new_key=True, repeat_effects=True)
    assert client.approve("several", "A", actor="ann").fate == "repeated"
    with pytest.raises(AlreadyDecided):
        client.reject("several", "A", actor="ann")


def test_a_decision_binds_after_a_rewind_to_a_checkpoint_behind_it(client: Client, hand: Hand, ask: Ask) -> None:
    decided(client, hand, ask)
    client.rewind("several", "A", to=3, repeat_effects=True)
    assert client.get("several", "A").state["approval"]["approved"] is True
    assert client.approve("several", "A", actor="ann").fate == "repeated"


@pytest.mark.parametrize("undo", ["rewind", "restart"])
def test_a_decision_that_was_undone_binds_nobody(client: Client, hand: Hand, ask: Ask, undo: str) -> None:
    decided(client, hand, ask)
    options = {"to": 0} if undo == "rewind" else {}
    getattr(client, undo)("several", "A", repeat_effects=True, **options)
    assert client.reject("several", "A", actor="bob").fate == "kept"


def test_a_decision_binds_again_after_a_rewind_into_the_past_that_was_undone(
    client: Client, hand: Hand, ask: Ask
) -> None:
    decided(client, hand, ask)
    client.rewind("several", "A", to=0, repeat_effects=True)
    client.rewind("several", "A", to=3, repeat_effects=True)
    assert client.get("several", "A").state["approval"]["approved"] is True
    assert client.approve("several", "A", actor="ann").fate == "repeated"


def test_a_deadline_that_passed_stays_passed_after_a_rewind_to_a_checkpoint_behind_it(
    client: Client, hand: Hand, ask: Ask, db: Database
) -> None:
    ring = ask(approval(timeout=0, on_timeout="after_a"))
    waits.expire(db, ring.case)
    hand.step(ring, 2)
    client.rewind("several", "A", to=2, repeat_effects=True)
    assert client.approve("several", "A", actor="ann").fate == "late"
    client.rewind("several", "A", to=0, repeat_effects=True)
    assert client.approve("several", "A", actor="ann").fate == "kept"


def test_what_a_deadline_left_aside_is_not_late(client: Client, hand: Hand, ask: Ask, db: Database) -> None:
    ring = ask(wait_any(approval(then="after_a"), wait_for("b", into="b", timeout=0, on_timeout="ask")))
    assert waits.expire(db, ring.case).step == "ask"
    assert client.signal("several", "A", "b", 1).fate == "late", "its own deadline has passed"
    assert client.approve("several", "A", actor="ann").fate == "kept"
    hand.step(ring, 2, wait_any(approval(then="after_a"), wait_for("b", into="b", timeout=1000, on_timeout="ask")))
    assert waits.deliver(db, ring.case).step == "after_a"


# --------------------------------------------------------------------------------------------------------- dedupe keys
def test_after_a_restart_a_dedupe_key_is_free_again(client: Client, hand: Hand, ask: Ask) -> None:
    ring = ask(approval())
    client.signal("several", "A", "approval", YES, dedupe_key="k")
    client.restart("several", "A", repeat_effects=True)
    hand.step(ring, client.get("several", "A").seq, approval())
    assert client.signal("several", "A", "approval", NO, dedupe_key="k").fate == "delivered"


def test_after_a_rewind_the_dedupe_keys_of_what_is_undone_are_free_again_and_no_others(
    client: Client, hand: Hand, ask: Ask
) -> None:
    ring = ask(receive("chat", into="a", then="ask"))
    client.send("several", "A", "chat", "one", dedupe_key="m1")
    hand.step(ring, 2, receive("chat", into="a"))
    client.send("several", "A", "chat", "two", dedupe_key="m2")
    client.rewind("several", "A", to=3, repeat_effects=True)
    assert client.send("several", "A", "chat", "one", dedupe_key="m1").fate == "repeated"
    assert client.send("several", "A", "chat", "two", dedupe_key="m2").fate == "delivered"


def test_a_message_and_a_decision_may_have_the_same_key(client: Client, ask: Ask) -> None:
    ask(approval())
    assert client.send("several", "A", "approval", "a message", dedupe_key="1").fate == "kept"
    assert client.signal("several", "A", "approval", YES, dedupe_key="1").fate == "delivered"


def test_a_payload_is_the_same_as_what_is_stored_of_it(client: Client, hand: Hand) -> None:
    hand.start("A", several)
    assert client.signal("several", "A", "a", (1, 2)).fate == "kept"
    assert client.signal("several", "A", "a", (1, 2)).fate == "repeated"
    with pytest.raises(AlreadyDecided):
        client.signal("several", "A", "a", (True, 2))


# ------------------------------------------------------------------------------------------------------- other verbs
def test_a_signal_to_a_case_that_is_just_being_revived_is_delivered(
    client: Client, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(approval())
    client.cancel("several", "A")
    look = signals._to_nobody

    def revived_before_the_look(*args: Any) -> Any:
        if client.get("several", "A").ended:
            client.rewind("several", "A", to=1, repeat_effects=True)
        return look(*args)

    monkeypatch.setattr(signals, "_to_nobody", revived_before_the_look)
    assert client.approve("several", "A", actor="ann").fate == "delivered"


def test_a_signal_to_a_paused_case_says_so_and_the_case_is_due_never(client: Client, ask: Ask, db: Database) -> None:
    ask(approval())
    client.pause("several", "A")
    receipt = client.approve("several", "A", actor="ann")
    assert (receipt.fate, receipt.paused, receipt.ring) == ("delivered", True, None)
    due = sa.text("select due_at = 'infinity' as never from keepstep.heads")
    assert db.one(due, {}).never
    client.resume("several", "A")
    assert not db.one(due, {}).never


def test_to_skip_open_waits_that_lead_to_different_steps_takes_a_word_where_to(client: Client, ask: Ask) -> None:
    ask(wait_any(wait_for("x", then="after_b"), wait_for("a", then="after_a")))
    with pytest.raises(errors.NotSkippable, match="a to after_a, x to after_b"):
        client.skip("several", "A")
    assert client.skip("several", "A", to="after_b").step == "after_b"


def test_skip_goes_where_the_open_wait_leads_not_where_an_answered_one_did(client: Client, ask: Ask) -> None:
    ask(wait_all(wait_for("a", into="a", then="after_a"), wait_for("b", into="b", then="after_b")))
    client.signal("several", "A", "a", 1)
    assert client.skip("several", "A").step == "after_b"
