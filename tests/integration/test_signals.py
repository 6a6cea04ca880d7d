"""Signals: kept, delivered, refused; whichever order things come in, and however many come at once."""

from __future__ import annotations

import threading
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import BaseModel, Field

from keepstep import AlreadyDecided, Approval, BadPayload, CaseFinished, Client, UnknownCase, wait_for
from keepstep.checkpoint import reads, recovery, waits
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import BadSignal
from keepstep.workers.engine import Engine
from keepstep.workers.sweep import Sweep
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand

YES, NO = {"approved": True}, {"approved": False}


def ask() -> Any:
    return wait_for("approval", into="approval", payload=Approval)


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def test_a_signal_wakes_a_waiting_case_and_no_step_runs_again(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask())
    assert client.get("approve", "A").status == "waiting"
    assert client.signal("approve", "A", "approval", YES, actor="underwriter-7").fate == "delivered"
    case = client.get("approve", "A")
    assert (case.status, case.step, case.seq) == ("queued", "act", 2)
    assert case.state["approval"] == {"approved": True, "actor": "underwriter-7"}


def test_an_early_signal_is_kept_and_delivered_when_the_wait_begins(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    assert client.signal("approve", "A", "approval", YES).fate == "kept"
    hand.step(ring, 0, ask())
    assert waits.deliver(db, ring.case) is not None
    assert client.get("approve", "A").step == "act"


def test_a_delivery_that_a_crash_left_undone_is_found_by_the_sweep(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    client.signal("approve", "A", "approval", YES)
    hand.step(ring, 0, ask())
    assert recovery.undelivered(db, LIMITS) == [ring.case]
    assert waits.deliver(db, ring.case) is not None
    assert recovery.undelivered(db, LIMITS) == []
    assert waits.deliver(db, ring.case) is None


def test_an_early_signal_that_does_not_fit_is_kept_and_shown_and_the_wait_goes_on(
    client: Client, hand: Hand, db: Database
) -> None:
    ring = hand.start("A", flows.approve)
    client.signal("approve", "A", "approval", {"approved": "perhaps"})
    hand.step(ring, 0, ask())
    assert waits.deliver(db, ring.case) is None
    assert client.get("approve", "A").status == "waiting"
    [sent] = [e for e in client.history("approve", "A") if e.kind == "sent"]
    assert "doesn't fit" in sent.detail["refused"]
    assert client.signal("approve", "A", "approval", YES).fate == "delivered"


def test_a_payload_that_does_not_fit_is_refused_when_it_is_sent(client: Client, hand: Hand) -> None:
    hand.step(hand.start("A", flows.approve), 0, ask())
    for payload in ({"approved": "perhaps"}, {}, None, [1], {"approved": float("nan")}):
        with pytest.raises(BadPayload, match="approve/A"):
            client.signal("approve", "A", "approval", payload)
    assert [e for e in client.history("approve", "A") if e.kind == "sent"] == []


@pytest.mark.parametrize("early", [True, False])
def test_of_two_different_decisions_the_first_wins_and_the_second_is_told(
    client: Client, hand: Hand, early: bool
) -> None:
    ring = hand.start("A", flows.approve)
    if not early:
        hand.step(ring, 0, ask())
    client.signal("approve", "A", "approval", YES)
    with pytest.raises(AlreadyDecided) as refused:
        client.signal("approve", "A", "approval", NO)
    assert refused.value.first == YES
    assert client.signal("approve", "A", "approval", YES).fate == "repeated"


def test_one_dedupe_key_counts_once(client: Client, hand: Hand) -> None:
    hand.start("A", flows.approve)
    assert client.signal("approve", "A", "approval", YES, dedupe_key="k").fate == "kept"
    assert client.signal("approve", "A", "approval", YES, dedupe_key="k").fate == "repeated"


def test_a_signal_to_nobody_is_refused(client: Client, hand: Hand) -> None:
    with pytest.raises(UnknownCase):
        client.signal("approve", "A", "approval", YES)
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, None)
    hand.step(ring, 1, None)
    from keepstep import finish

    hand.step(ring, 2, finish())
    with pytest.raises(CaseFinished, match="completed"):
        client.signal("approve", "A", "approval", YES)


def test_a_wait_in_the_last_step_completes_the_case(client: Client, hand: Hand) -> None:
    ring = hand.start("A", flows.coroutine)
    hand.step(ring, 0, ask())
    assert client.signal("coroutine", "A", "approval", YES).ring is None
    case = client.get("coroutine", "A")
    assert case.status == "completed"
    assert case.state["approval"]["approved"] is True


def test_of_two_signals_at_once_exactly_one_wins(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask())
    outcomes: list[str] = []

    def send(payload: Any) -> None:
        try:
            outcomes.append(client.signal("approve", "A", "approval", payload).fate)
        except AlreadyDecided:
            outcomes.append("already")

    _while_the_head_is_locked(db, [lambda: send(YES), lambda: send(NO)])
    assert sorted(outcomes) == ["already", "delivered"]
    assert len([e for e in reads.history(db, ring.case) if e.kind == "signal"]) == 1


def test_a_signal_before_a_deadline_wins_over_it(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.expiring)
    hand.step(ring, 0, wait_for("approval", into="approval", timeout=0, on_timeout="escalate", then="answered"))
    assert recovery.overdue_waits(db, LIMITS) == [ring.case]
    client.signal("expiring", "A", "approval", YES)
    assert waits.expire(db, ring.case) is None
    assert client.get("expiring", "A").step == "answered"


def test_a_decision_after_the_deadline_is_late_and_kept(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.expiring)
    hand.step(ring, 0, wait_for("approval", into="approval", timeout=0, on_timeout="escalate", then="answered"))
    assert waits.expire(db, ring.case).step == "escalate"
    assert client.signal("expiring", "A", "approval", YES, actor="late-7").fate == "late"
    [sent] = [e for e in client.history("expiring", "A") if e.kind == "sent"]
    assert sent.detail["refused"] == "it came after the deadline"
    assert sent.detail["actor"] == "late-7"


def test_of_a_signal_and_a_deadline_at_once_exactly_one_wins(client: Client, hand: Hand, db: Database) -> None:
    for n in range(4):
        ring = hand.start(f"A{n}", flows.expiring)
        hand.step(ring, 0, wait_for("approval", into="approval", timeout=0, on_timeout="escalate", then="answered"))
        fates: list[Any] = []
        _while_the_head_is_locked(
            db,
            [
                lambda n=n: fates.append(client.signal("expiring", f"A{n}", "approval", YES).fate),  # noqa: B023
                lambda c=ring.case: waits.expire(db, c),
            ],
        )
        step = client.get("expiring", f"A{n}").step
        assert (fates[0], step) in (("delivered", "answered"), ("late", "escalate"))


class Named(BaseModel):
    """A pattern that pydantic's regular expressions know and Python's don't."""

    name: str = Field(pattern=r"^\p{L}+$")


class Dated(BaseModel):
    when: datetime


def test_a_pattern_that_only_pydantic_knows_refuses_nobody(client: Client, hand: Hand) -> None:
    hand.step(hand.start("A", flows.approve), 0, wait_for("name", into="value", payload=Named))
    assert client.signal("approve", "A", "name", {"name": "x"}).fate == "delivered"


def test_a_format_is_checked_without_any_code(client: Client, hand: Hand) -> None:
    hand.step(hand.start("A", flows.approve), 0, wait_for("date", into="value", payload=Dated))
    with pytest.raises(BadPayload, match="yesterday"):
        client.signal("approve", "A", "date", {"when": "yesterday"})
    assert client.signal("approve", "A", "date", {"when": "2026-01-01T00:00:00Z"}).fate == "delivered"


def test_what_the_field_does_not_take_is_refused_with_the_code_and_without(client: Client, hand: Hand) -> None:
    hand.step(hand.start("A", flows.approve), 0, wait_for("amount", into="seconds"))
    with Client(settings=client.settings, workflows=[]) as stranger:
        for sender in (client, stranger):
            with pytest.raises(BadPayload, match="many"):
                sender.signal("approve", "A", "amount", "many")
        assert stranger.signal("approve", "A", "amount", 2.5).fate == "delivered"


def test_what_cannot_be_stored_is_refused_by_name(client: Client, hand: Hand) -> None:
    hand.start("A", flows.approve)
    for name in ("", "bad name", "a\0", "x" * 300):
        with pytest.raises(BadSignal):
            client.signal("approve", "A", name, YES)
    for text in ("a\0", "\ud800", "x" * 300):
        with pytest.raises(BadSignal, match="actor"):
            client.signal("approve", "A", "approval", YES, actor=text)
        with pytest.raises(BadSignal, match="dedupe key"):
            client.signal("approve", "A", "approval", YES, dedupe_key=text)
    with pytest.raises(BadPayload, match="5,0"):
        client.signal("approve", "A", "approval", "x" * 5_000_000)


def test_a_refused_signal_uses_up_no_dedupe_key(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    client.signal("approve", "A", "approval", {"approved": "perhaps"}, dedupe_key="k")
    hand.step(ring, 0, ask())
    waits.deliver(db, ring.case)
    assert client.signal("approve", "A", "approval", YES, dedupe_key="k").fate == "delivered"


def test_a_second_signal_before_the_first_was_delivered_is_told(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    client.signal("approve", "A", "approval", YES)
    hand.step(ring, 0, ask())
    with pytest.raises(AlreadyDecided):
        client.signal("approve", "A", "approval", NO)
    waits.deliver(db, ring.case)
    assert client.get("approve", "A").state["approval"]["approved"] is True


def test_a_nul_in_a_refused_payload_is_shown_escaped(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    client.signal("approve", "A", "approval", {"approved\0": 1})
    hand.step(ring, 0, ask())
    assert waits.deliver(db, ring.case) is None
    assert client.get("approve", "A").status == "waiting"


def test_one_wait_that_cannot_be_moved_keeps_no_other(hand: Hand, db: Database, client: Client) -> None:
    for thread_id in ("bad", "good"):
        ring = hand.start(thread_id, flows.expiring)
        hand.step(ring, 0, wait_for("approval", into="approval", timeout=0, on_timeout="escalate", then="answered"))
    damage = (
        "update keepstep.waits w set on_timeout = '7' from keepstep.cases k where k.id = case_id and thread_id = 'bad'"
    )
    db.run(sa.text(damage), {})
    engine = Engine(settings=client.settings, db=db, registry=client.registry, bell=client._bell)
    sweep = Sweep(engine, lambda: set())
    sweep.round()
    assert client.get("expiring", "good").step == "escalate"
    assert client.get("expiring", "bad").status == "waiting"


def test_a_newer_releases_target_is_understood(hand: Hand, db: Database, client: Client) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask())
    newer = "update keepstep.waits set then_target = jsonb_set(then_target::jsonb, '{priority}', '7')::json"
    db.run(sa.text(newer), {})
    assert client.signal("approve", "A", "approval", YES).fate == "delivered"


def _while_the_head_is_locked(db: Database, acts: list[Any]) -> None:
    """Start the acts while a third session holds the heads, see that they really block, and let them go."""
    threads = [threading.Thread(target=act) for act in acts]
    with db.transaction() as third:
        third.execute(sa.text("select 1 from keepstep.heads for update"))
        for thread in threads:
            thread.start()
        blocked = sa.text(
            "select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        )
        eventually(lambda: db.all(blocked)[0].n == len(acts), message="all really block")
    for thread in threads:
        thread.join(10)
