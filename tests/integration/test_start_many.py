"""Many cases in a few statements, delayed, urgent and pinned ones."""

from __future__ import annotations

import threading
import time

import pytest
import redis
import sqlalchemy as sa
from sqlalchemy import event

from keepstep import BadState, CaseConflict, Client, StartPending
from keepstep.checkpoint import births, recovery
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import BadStart, CaseExists
from tests import flows
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand
from tests.support.trace import Trace


@pytest.fixture
def statements(client: Client) -> list[str]:
    """What the client says to PostgreSQL from now on."""
    said: list[str] = []
    event.listen(client.db.engine, "before_cursor_execute", lambda *args: said.append(args[2]))
    return said


def test_ten_thousand_cases_start_in_a_few_statements(client: Client, statements: list[str], broker_url: str) -> None:
    cases = {f"A{n}": {"value": {"number": n}} for n in range(10_000)}
    began = time.monotonic()
    started = client.start_many("ten", cases, tags={"import": "monday"})
    took = time.monotonic() - began
    print(f"10,000 cases in {took:.2f} s, {len(statements)} statements")
    assert [case.thread_id for case in started] == list(cases), "in the order given"
    assert all(case.new and case.rung and case.error is None for case in started)
    assert len(statements) <= 30
    assert took < 30, "a bound against mistakes, not a measurement"
    assert client.counts() == {"queued": 10_000}
    assert client.get("ten", "A4711").state["value"] == {"number": 4711}
    with redis.Redis.from_url(broker_url) as valkey:
        assert valkey.llen("keepstep") == 10_000


def test_a_conflict_refuses_itself_only(client: Client) -> None:
    client.start("ten", "taken", {"seconds": 9})
    client.start("ten", "same", {})
    started = client.start_many("ten", [("new", {}), ("taken", {}), ("same", {})])
    assert [(case.thread_id, case.new, type(case.error)) for case in started] == [
        ("new", True, type(None)),
        ("taken", False, CaseConflict),
        ("same", False, type(None)),
    ]
    again = client.start_many("ten", {"new": {}, "newer": {}}, if_exists="raise")
    assert [type(case.error) for case in again] == [CaseExists, type(None)]


def test_the_same_thread_id_twice_in_one_call_is_one_case(client: Client) -> None:
    started = client.start_many("ten", [("A", {}), ("A", {}), ("A", {"seconds": 1})])
    assert sum(case.new for case in started) == 1
    assert client.counts() == {"queued": 1}
    assert sum(isinstance(case.error, CaseConflict) for case in started) in (1, 2), "one of the inputs came first"


def test_one_bad_state_starts_none(client: Client) -> None:
    with pytest.raises(BadState, match="ten/bad"):
        client.start_many("ten", [("good", {}), ("bad", {"log": 7})])
    assert client.counts() == {}
    assert client.start_many("ten", {}) == []


def test_a_thousand_is_all_or_nothing(client: Client, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(births, "LOCK_TIMEOUT_MS", 200)
    with db.transaction() as theirs:
        births.start(db, flows.ten, "A1500", {}, max_state_bytes=10**6, connection=theirs)
        with pytest.raises(StartPending, match="one of 1000"):
            client.start_many("ten", {f"A{n}": {} for n in range(2000)})
    counted = sum(client.counts().values())
    assert counted in (1, 1001), "the thousand that was blocked left nothing"
    client.start_many("ten", {f"A{n}": {} for n in range(2000)})
    assert client.counts() == {"queued": 2000}


def test_two_starts_of_the_same_many_never_wait_for_each_other(client: Client) -> None:
    names = [f"A{n}" for n in range(3000)]
    new: list[int] = []

    def start(order: list[str]) -> None:
        new.append(sum(case.new for case in client.start_many("ten", [(name, {}) for name in order])))

    threads = [threading.Thread(target=start, args=(order,)) for order in (names, names[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(new) == 3000, "no deadlock, and each case once"


# ------------------------------------------------------------------------------------------------------- if it exists
def test_if_exists_raise_refuses_the_same_input_too(client: Client) -> None:
    client.start("ten", "A", {}, if_exists="raise")
    with pytest.raises(CaseExists, match="ten/A: it was started before"):
        client.start("ten", "A", {}, if_exists="raise")


def test_if_exists_restart_begins_an_ended_case_again_and_leaves_a_live_one(client: Client, db: Database) -> None:
    hand = Hand(db)
    first = hand.start("A", flows.once)
    with pytest.raises(CaseExists, match="hasn't ended"):
        client.start("once", "A", {}, if_exists="restart")
    hand.step(first, 0)
    ended = client.get("once", "A")
    assert ended.status == "completed"
    again = client.start("once", "A", {"seconds": 0.5}, if_exists="restart", queue="slow", priority=1, tags={"n": 2})
    assert (again.new, again.restarted, again.rung) == (False, True, True)
    case = client.get("once", "A")
    assert (case.status, case.state["seconds"]) == ("queued", 0.5)
    assert (case.queue, case.priority, case.tags) == ("slow", 1, {"n": 2})
    assert case.run != ended.run, "new idempotency keys"
    with pytest.raises(BadStart, match="delay"):
        client.start("once", "A", {}, if_exists="restart", delay=1)


def test_of_two_restarts_at_once_one_is_refused(client: Client, db: Database) -> None:
    Hand(db).step(Hand(db).start("A", flows.once), 0)
    outcomes: list[str] = []

    def restart() -> None:
        try:
            outcomes.append("restarted" if client.start("once", "A", {}, if_exists="restart").restarted else "?")
        except CaseExists:
            outcomes.append("refused")

    threads = [threading.Thread(target=restart) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(outcomes) == ["refused", "refused", "refused", "restarted"]


# -------------------------------------------------------------------------------------------------------------- terms
@pytest.mark.parametrize(
    ("terms", "word"),
    [
        ({"priority": 10}, "priority"),
        ({"priority": True}, "priority"),
        ({"delay": -1}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"queue": ""}, "queue"),
        ({"tags": ["a"]}, "tags"),
        ({"tags": {"a": float("inf")}}, "tags"),
        ({"tags": {"a": ["x", {"b": "\0"}]}}, "NUL"),
        ({"if_exists": "replace"}, "if_exists"),
    ],
)
def test_bad_terms_are_refused_before_anything_is_written(client: Client, terms: dict, word: str) -> None:
    with pytest.raises(BadStart, match=word):
        client.start("ten", "A", {}, **terms)
    assert client.counts() == {}


def test_a_delayed_case_sleeps_until_exactly_then(client: Client, db: Database, broker_url: str) -> None:
    started = client.start("ten", "A", {}, delay=3600)
    assert (started.new, started.rung) == (True, False)
    row = db.all(sa.text("select status, extract(epoch from due_at - entered_at)::float8 as delay from keepstep.heads"))
    assert row[0].status == "sleeping"
    assert row[0].delay == pytest.approx(3600, abs=0.01), "not on the sweep's grid"
    assert client.history("ten", "A")[0].detail["status"] == "sleeping"
    with redis.Redis.from_url(broker_url) as valkey:
        assert valkey.llen("keepstep") == 0


def test_a_delayed_case_runs_when_its_time_has_come(client: Client, start_worker: StartWorker) -> None:
    start_worker()
    client.start("ten", "A", {}, delay=0.5)
    assert client.get("ten", "A").status == "sleeping"
    assert client.wait("ten", "A", 20).status == "completed"


def test_all_steps_of_a_pinned_case_use_its_queue(client: Client, db: Database) -> None:
    hand = Hand(db)
    client.start("ten", "A", {}, queue="slow", priority=7)
    client.start("ten", "B", {})
    for thread_id, queue, priority in (("A", "slow", 7), ("B", "keepstep", None)):
        case = client.get("ten", thread_id)
        assert (case.queue, case.priority) == (queue, priority)
        committed = hand.step(case.id, 0)
        assert (committed.ring.queue, committed.ring.priority) == (queue, priority)
        case = client.get("ten", thread_id)
        assert (case.seq, case.queue, case.priority) == (1, queue, priority)
    db.run(sa.text("update keepstep.heads set status = 'sleeping', due_at = now()"), {})
    assert {(ring.queue, ring.priority) for ring in recovery.wake(db, LIMITS)} == {("slow", 7), ("keepstep", None)}


def test_an_ended_case_that_is_revived_or_forked_keeps_its_queue_and_priority(client: Client, db: Database) -> None:
    client.start("approve", "A", {}, queue="slow", priority=7)
    client.cancel("approve", "A")
    client.rewind("approve", "A", to=0, repeat_effects=True)
    client.cancel("approve", "A")
    client.fork("approve", "A", at=0, new_thread_id="B", repeat_effects=True)
    client.restart("approve", "A", repeat_effects=True)
    for thread_id in "AB":
        case = client.get("approve", thread_id)
        assert (case.status, case.queue, case.priority) == ("queued", "slow", 7)
    client.cancel("approve", "A")
    client.start("approve", "A", {}, if_exists="restart", queue="other")
    client.cancel("approve", "A")
    client.restart("approve", "A", repeat_effects=True)
    assert (client.get("approve", "A").queue, client.get("approve", "A").priority) == ("other", None)


def test_a_commit_whose_reply_was_lost_rings_on_the_pinned_queue(client: Client, db: Database) -> None:
    hand = Hand(db)
    client.start("ten", "A", {}, queue="slow", priority=7)
    claim = hand.claim(client.get("ten", "A").id)
    first, again = hand.commit(claim), hand.commit(claim)
    assert first == again
    assert (again.ring.queue, again.ring.priority) == ("slow", 7)


def test_the_depth_of_a_queue_counts_every_priority(client: Client) -> None:
    client.start("ten", "default", {})
    for priority in range(10):
        client.start("ten", f"A{priority}", {}, priority=priority)
    assert client._bell.depth("keepstep") == 11


def test_urgent_cases_overtake_a_backlog_and_idle_ones_come_last(
    client: Client, start_worker: StartWorker, trace: Trace
) -> None:
    client.start("once", "idle", {}, priority=0)
    client.start_many("once", {f"B{n}": {} for n in range(20)})
    for priority in (6, 9, 8):
        client.start("once", f"urgent{priority}", {}, priority=priority)
    start_worker(pool="solo", concurrency=1)
    eventually(lambda: client.counts().get("completed") == 24, 30, "all have run")
    ran = [case.thread_id for case in reversed(sorted_by_end(client))]
    print(ran)
    # one message can be on its way already when the next one is chosen
    assert ran.index("urgent9") < ran.index("urgent8") < ran.index("urgent6") < ran.index("B1")
    assert ran[-1] == "idle"


def sorted_by_end(client: Client) -> list:
    return sorted(client.list(workflow="once", limit=100), key=lambda case: case.finished_at, reverse=True)
