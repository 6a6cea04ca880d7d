"""Time that passes: deadlines, reminders, timers and back-offs, with the database's clock put forward."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Approval, Client, Workflow, sleep, wait_all, wait_any, wait_for
from keepstep.checkpoint import hooks, recovery, waits
from keepstep.checkpoint.database import Database
from keepstep.testing.clock import Clock
from keepstep.workers.make_call import make_call
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand
from tests.support.trace import Trace

DAY = timedelta(days=1)

reminding = Workflow("reminding", state=flows.State)
reminding.step(name="ask")(lambda state, call: None)
reminding.step(name="act")(lambda state, call: None)
reminding.on("remind")(lambda case, call: None)


@pytest.fixture
def hand(clock: Clock, db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, reminding])
    return Hand(db, known='{"reminding": 1, "approve": 1, "sleeper": 1, "wrong": 1}')


def asked(hand: Hand, outcome: Any) -> Any:
    ring = hand.start("A", reminding)
    hand.step(ring, 0, outcome)
    return ring.case


def reminded(db: Database) -> list[str]:
    """The waits that somebody is reminded of now."""
    found = [hooks.find(db, due.id) for due in hooks.due(db, ["reminding"], 10)]
    for hook in found:
        hooks.done(db, hook.id)
    return sorted(hook.wait for hook in found if hook.event == "remind")


def sweep(db: Database) -> list[Any]:
    return [ring for case in recovery.overdue_waits(db, LIMITS) if (ring := waits.expire(db, case))]


def test_a_deadline_of_two_weeks_takes_two_weeks(clock: Clock, hand: Hand, db: Database) -> None:
    asked(hand, wait_for("approval", into="approval", timeout=14 * DAY, on_timeout="act"))
    clock.advance(14 * DAY - timedelta(minutes=1))
    assert sweep(db) == []
    clock.advance(timedelta(minutes=1))
    assert [ring.step for ring in sweep(db)] == ["act"]


def test_somebody_is_reminded_each_day_until_the_answer(clock: Clock, hand: Hand, db: Database, client: Client) -> None:
    asked(hand, wait_for("approval", into="approval", payload=Approval, timeout=5 * DAY, remind_every=DAY))
    assert (sweep(db), reminded(db)) == ([], [])
    for _ in range(3):
        clock.advance(DAY)
        assert (sweep(db), reminded(db)) == ([], ["approval"])
        assert recovery.overdue_waits(db, LIMITS) == [], "until the next day"
    client.signal("reminding", "A", "approval", {"approved": True})
    clock.advance(DAY)
    assert (sweep(db), reminded(db)) == ([], [])


def test_reminders_end_with_the_deadline(clock: Clock, hand: Hand, db: Database) -> None:
    asked(hand, wait_for("approval", timeout=2 * DAY, on_timeout="act", remind_every=DAY))
    clock.advance(2 * DAY)
    assert [ring.step for ring in sweep(db)] == ["act"]
    assert reminded(db) == [], "the deadline came first"


def test_what_came_due_while_everything_was_down_is_one_reminder(clock: Clock, hand: Hand, db: Database) -> None:
    asked(hand, wait_for("approval", remind_every=DAY))
    clock.advance(10 * DAY)
    sweep(db)
    assert reminded(db) == ["approval"]
    clock.advance(DAY)
    sweep(db)
    assert reminded(db) == ["approval"]


@pytest.mark.parametrize("together", [wait_any, wait_all])
def test_each_of_several_waits_reminds_by_itself(clock: Clock, hand: Hand, db: Database, together) -> None:
    asked(hand, together(wait_for("a", remind_every=DAY), wait_for("b", remind_every=2 * DAY)))
    clock.advance(DAY)
    sweep(db)
    assert reminded(db) == ["a"]
    clock.advance(DAY)
    sweep(db)
    assert reminded(db) == ["a", "b"]


def test_a_reminder_that_nobody_would_hear_holds_the_case(clock: Clock, db: Database, client: Client) -> None:
    hand = Hand(db)
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, wait_for("approval", remind_every=DAY))
    case = client.get("approve", "A")
    assert case.status == "held"
    assert "@workflow.on" in case.reason["message"]


def test_a_rewind_to_a_wait_reminds_again(clock: Clock, hand: Hand, db: Database, client: Client) -> None:
    case = asked(hand, wait_for("approval", timeout=5 * DAY, remind_every=DAY))
    clock.advance(2 * DAY)
    sweep(db)
    assert reminded(db) == ["approval"]
    client.rewind("reminding", "A", to=1, repeat_effects=True)
    assert sweep(db) == []
    due = sa.text("select due_at - clock_timestamp() as left from keepstep.heads where id = :id")
    assert timedelta(hours=23) < db.one(due, {"id": case}).left <= DAY


def test_a_step_that_is_silent_for_too_long_is_taken_away_and_one_that_says_so_is_not(
    clock: Clock, db: Database, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    talking = Workflow("talking", state=flows.State, timeout=timedelta(hours=8))
    talking.step(name="talk", heartbeat_timeout=timedelta(minutes=1))(lambda state, call: None)
    talking.step(name="end")(lambda state, call: None)
    monkeypatch.setattr(flows, "ALL", [talking])
    hand = Hand(db, known='{"talking": 1}')
    claim = hand.claim(hand.start("A", talking))
    call = make_call(claim, db)
    clock.advance(50)
    call.heartbeat({"page": 7})
    clock.advance(50)
    recovery.look_again(db, LIMITS)
    assert recovery.recover_overdue(db, LIMITS).rings == []
    clock.advance(50)
    [ring] = recovery.recover_overdue(db, LIMITS).rings
    again = hand.claim(ring.case, ring.seq)
    assert make_call(again, db).detail == {"page": 7}
    hand.commit(again)
    following = hand.claim(ring.case, 1)
    assert following.detail is None
    clock.advance(timedelta(hours=7))
    assert recovery.recover_overdue(db, LIMITS).rings == [], "the next step need not say anything"


def test_timers_that_came_due_while_everything_was_down_run_once(
    clock: Clock, client: Client, db: Database, start_worker, trace: Trace
) -> None:
    hand = Hand(db)
    for number in range(3):
        hand.step(hand.start(f"S{number}", flows.sleeper), 0, sleep(7 * DAY))
    clock.advance(8 * DAY)
    start_worker()
    for number in range(3):
        client.wait("sleeper", f"S{number}", 20)
        assert [line.step for line in trace.lines(f"S{number}")] == ["after"]


def test_a_deadline_passes_under_a_running_worker(clock: Clock, client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("expiring", "A", {"seconds": 14 * 86400, "value": "escalate"})
    eventually(lambda: client.get("expiring", "A").status == "waiting")
    clock.advance(14 * DAY)
    assert client.wait("expiring", "A", 20).status == "completed"
    assert [line.step for line in trace.lines("A")] == ["escalate"]
