"""Waits: any of several, all of several, streams, four eyes, defaults, digests; and the inbox."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep import (
    AlreadyDecided,
    Approval,
    BadPayload,
    Client,
    StaleDecision,
    Workflow,
    receive,
    sleep_until,
    wait_all,
    wait_any,
    wait_for,
)
from keepstep.checkpoint import reads, recovery, waits
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Ring
from keepstep.steps.errors import BadSignal
from keepstep.testing.clock import Clock
from tests import flows
from tests.support.hand import LIMITS, Hand

YES, NO = {"approved": True}, {"approved": False}


class State(BaseModel):
    a: Any = None
    b: Any = None
    approval: Approval | None = None


several = Workflow("several", state=State)
for _name in ("ask", "after_a", "after_b"):
    several.step(name=_name)(lambda state, call: None)


@pytest.fixture
def hand(db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, several])
    return Hand(db, known='{"several": 1, "approve": 1}')


@pytest.fixture
def ask(hand: Hand):
    """Start a case and let its first step return the outcome."""

    def ask(outcome: Any, thread_id: str = "A") -> Ring:
        ring = hand.start(thread_id, several)
        hand.step(ring, 0, outcome)
        return ring

    return ask


def test_the_first_of_any_decides_and_the_others_are_dropped(client: Client, ask) -> None:
    ask(wait_any(wait_for("a", into="a", then="after_a"), wait_for("b", into="b", then="after_b")))
    assert {wait["name"] for wait in client.waits("several", "A")} == {"a", "b"}
    client.signal("several", "A", "b", 7)
    case = client.get("several", "A")
    assert (case.step, case.state["b"], case.state["a"]) == ("after_b", 7, None)
    assert client.waits("several", "A") == []
    assert client.signal("several", "A", "a", 1).fate == "kept", "a later visit may ask for it"


@pytest.mark.parametrize("order", list(itertools.permutations("ab")))
@pytest.mark.parametrize("early", [0, 1, 2])
def test_all_come_in_whichever_order_and_early_or_not(client: Client, hand: Hand, db, order, early: int) -> None:
    ring = hand.start("A", several)
    for name in order[:early]:
        client.signal("several", "A", name, f"from {name}")
    hand.step(ring, 0, wait_all(wait_for("a", into="a", then="after_a"), wait_for("b", into="b", then="after_a")))
    if early:
        waits.deliver(db, ring.case)
    for name in order[early:]:
        assert client.get("several", "A").status == "waiting"
        assert client.signal("several", "A", name, f"from {name}").fate == "delivered"
    case = client.get("several", "A")
    assert (case.status, case.step) == ("queued", "after_a")
    assert (case.state["a"], case.state["b"]) == ("from a", "from b")
    assert [e.kind for e in reads.history(db, ring.case) if e.kind in ("step", "signal")] == [
        "step",
        "signal",
        "signal",
    ]


def test_one_of_all_is_decided_once(client: Client, ask) -> None:
    ask(wait_all(wait_for("a", into="a"), wait_for("b", into="b")))
    client.signal("several", "A", "a", 1)
    with pytest.raises(AlreadyDecided):
        client.signal("several", "A", "a", 2)
    assert client.get("several", "A").state["a"] == 1


def test_messages_of_a_stream_are_taken_one_by_one_in_order(client: Client, hand: Hand, db: Database, ask) -> None:
    ring = hand.start("A", several)
    for n in range(3):
        assert client.send("several", "A", "chat", f"message {n}").fate == "kept"
    assert client.signal("several", "A", "chat", "a decision").fate == "kept", "decisions are another thing"
    hand.step(ring, 0, receive("chat", into="a", then="ask"))
    for n in range(3):
        waits.deliver(db, ring.case)
        case = client.get("several", "A")
        assert case.state["a"] == f"message {n}"
        hand.step(ring, case.seq, receive("chat", into="a", then="ask"))
    waits.deliver(db, ring.case)
    assert client.get("several", "A").status == "waiting"
    assert client.send("several", "A", "chat", "the last").fate == "delivered"


def test_four_eyes_are_two_different_peoples(client: Client, ask) -> None:
    ask(wait_for("approval", into="approval", payload=Approval, approvers=2))
    with pytest.raises(BadSignal, match="2 different actors"):
        client.signal("several", "A", "approval", YES)
    assert client.approve("several", "A", actor="first-1").fate == "counted"
    assert client.approve("several", "A", actor="first-1").fate == "repeated"
    with pytest.raises(AlreadyDecided):
        client.reject("several", "A", actor="first-1")
    assert client.inbox()[0].votes == 1
    assert client.get("several", "A").status == "waiting"
    assert client.approve("several", "A", actor="second-2", note="fine").fate == "delivered"
    case = client.get("several", "A")
    assert case.step == "after_a"
    assert case.state["approval"] == {"approved": True, "actor": "second-2", "note": "fine"}


def test_one_refusal_is_enough(client: Client, ask) -> None:
    ask(wait_for("approval", into="approval", payload=Approval, approvers=3))
    client.approve("several", "A", actor="first-1")
    assert client.reject("several", "A", actor="second-2").fate == "delivered"
    assert client.get("several", "A").state["approval"]["approved"] is False


def test_a_deadline_can_deliver_a_default(client: Client, ask, db: Database) -> None:
    ring = ask(wait_for("approval", into="approval", payload=Approval, timeout=0, default=NO))
    assert waits.expire(db, ring.case).step == "after_a"
    assert client.get("several", "A").state["approval"]["approved"] is False
    assert client.signal("several", "A", "approval", YES).fate == "late"


def test_a_default_of_none_is_a_default(client: Client, ask, db: Database) -> None:
    ring = ask(wait_for("a", into="a", timeout=0, default=None))
    assert waits.expire(db, ring.case).step == "after_a"


def test_the_next_deadline_counts_when_one_of_all_has_come(clock: Clock, client: Client, ask, db: Database) -> None:
    ring = ask(
        wait_all(
            wait_for("a", into="a", timeout=0, default="too late"),
            wait_for("b", into="b", timeout=timedelta(days=1), on_timeout="after_b"),
        )
    )
    assert waits.expire(db, ring.case) is None
    case = client.get("several", "A")
    assert (case.status, case.state["a"]) == ("waiting", "too late")
    assert recovery.overdue_waits(db, LIMITS) == []
    clock.advance(timedelta(days=1))
    assert recovery.overdue_waits(db, LIMITS) == [ring.case]
    assert waits.expire(db, ring.case).step == "after_b"


def test_choices_are_all_that_is_taken(client: Client, ask) -> None:
    ask(wait_for("a", into="a", choices=["red", "green"]))
    with pytest.raises(BadPayload, match="blue"):
        client.signal("several", "A", "a", "blue")
    assert client.signal("several", "A", "a", "green").fate == "delivered"


def test_approving_something_else_than_what_is_asked_now_is_refused(client: Client, hand: Hand, ask) -> None:
    ring = ask(wait_for("approval", into="approval", payload=Approval, prompt={"amount": 10}, then="ask"))
    shown = client.inbox()[0].digest
    client.approve("several", "A", actor="first-1", digest=shown)
    hand.step(ring, 2, wait_for("approval", into="approval", payload=Approval, prompt={"amount": 10_000}))
    with pytest.raises(StaleDecision, match="Look again"):
        client.approve("several", "A", actor="first-1", digest=shown)
    assert client.get("several", "A").status == "waiting"
    assert client.approve("several", "A", actor="first-1", digest=client.inbox()[0].digest).fate == "delivered"


def test_the_inbox_shows_what_is_asked_the_oldest_first(client: Client, ask) -> None:
    for thread_id in ("first", "second"):
        ask(wait_for("approval", into="approval", payload=Approval, prompt={"for": thread_id}), thread_id)
    assert [asked.thread_id for asked in client.inbox()] == ["first", "second"]
    assert client.inbox()[0].prompt == {"for": "first"}
    assert client.inbox()[0].schema["title"] == "Approval"
    assert client.inbox(workflow="ten") == []
    assert len(client.inbox(limit=1)) == 1


def test_a_decision_of_a_past_that_was_undone_binds_nobody(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, wait_for("approval", into="approval", payload=Approval))
    client.signal("approve", "A", "approval", YES)
    client.rewind("approve", "A", to=0, repeat_effects=True, reason="the wrong papers were shown")
    assert client.signal("approve", "A", "approval", NO).fate == "kept"
    hand.step(ring, client.get("approve", "A").seq, wait_for("approval", into="approval", payload=Approval))
    waits.deliver(db, ring.case)
    assert client.get("approve", "A").state["approval"]["approved"] is False


def test_a_repeat_after_the_case_has_ended_counts_once_too(client: Client, hand: Hand, ask) -> None:
    ring = ask(wait_for("a", into="a"))
    client.signal("several", "A", "a", 1, dedupe_key="k")
    hand.step(ring, 2, None)
    hand.step(ring, 3, None)
    assert client.get("several", "A").ended
    assert client.signal("several", "A", "a", 1, dedupe_key="k").fate == "repeated"


def test_a_sleep_until_an_instant_wakes_then_and_once(clock: Clock, client: Client, ask, db: Database) -> None:
    ring = ask(sleep_until(datetime.now(UTC) + timedelta(hours=1)))
    assert recovery.wake(db, LIMITS) == []
    clock.advance(timedelta(minutes=59))
    assert recovery.wake(db, LIMITS) == []
    clock.advance(timedelta(minutes=2))
    assert [r.case for r in recovery.wake(db, LIMITS)] == [ring.case]
    assert recovery.wake(db, LIMITS) == []
    with pytest.raises(ValueError, match="time zone"):
        sleep_until(datetime(2026, 1, 1))


def test_nonsense_is_refused_where_it_is_written() -> None:
    for nonsense in (
        lambda: wait_for("a", default=1),
        lambda: wait_for("a", timeout=1, default=1, on_timeout="x"),
        lambda: wait_for("a", payload=Approval, choices=[1]),
        lambda: wait_for("a", approvers=0),
        lambda: wait_any(),
        lambda: wait_all(wait_for("a"), wait_for("a")),
        lambda: wait_any(wait_for("a", update={"a": 1})),
    ):
        with pytest.raises(ValueError, match="wait"):
            nonsense()
