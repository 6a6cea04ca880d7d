"""Lists find cases, pages don't slip, `state` and `diff` look back, and `why` says what a case waits for."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import Client, UnknownCase
from keepstep.checkpoint import delta
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import reads
from keepstep.steps.errors import BadCursor, BadStart, UnknownCheckpoint
from tests import flows
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.hand import Hand

NODE = sa.text("""
insert into keepstep.nodes (id, host, host_id, process, lock_key, queues, workflows, pool, concurrency, version)
values (:id, :host, 'h', '17:1', 1, cast(:queues as json), cast(:workflows as json), 'prefork', 2, '0')
""")


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def node(db: Database, queues: list[str], workflows: dict[str, int], *, id: Any = None) -> None:
    """A node whose heartbeat is young."""
    values = {"queues": json.dumps(queues), "workflows": json.dumps(workflows)}
    db.run(NODE, {"id": id or uuid4(), "host": "box", **values})


def names(cases: Any) -> list[str]:
    return [case.thread_id for case in cases]


# -------------------------------------------------------------------------------------------------------------- lists
def test_a_list_filters_by_status_workflow_step_and_tag(client: Client, hand: Hand) -> None:
    client.start("ten", "A", {}, tags={"tenant": "acme", "tier": 1})
    client.start("ten", "B", {}, tags={"tenant": "acme", "tier": 2})
    client.start("once", "C", {}, tags={"tenant": "other"})
    hand.step(client.get("ten", "B").id, 0)
    hand.step(client.get("once", "C").id, 0)
    assert names(client.list()) == ["C", "B", "A"]
    assert names(client.list(workflow="ten")) == ["B", "A"]
    assert names(client.list(workflow=flows.ten, status="queued", step="s2")) == ["B"]
    assert names(client.list(status="completed")) == ["C"]
    assert names(client.list(tags={"tenant": "acme"})) == ["B", "A"]
    assert names(client.list(tags={"tenant": "acme", "tier": 1})) == ["A"]
    assert names(client.list(tags={"tier": "1"})) == [], "a number is no text"
    assert names(client.list(status="no such status")) == []
    assert client.list(tags={"tier": 2})[0].tags == {"tenant": "acme", "tier": 2}
    with pytest.raises(BadStart):
        client.list(tags="tenant=acme")  # type: ignore[arg-type]


def test_a_list_filters_by_the_age_at_the_step(client: Client, db: Database) -> None:
    client.start("ten", "old", {})
    db.run(sa.text("update keepstep.heads set entered_at = now() - interval '2 hours'"), {})
    client.start("ten", "young", {})
    assert names(client.list(older_than=timedelta(hours=1))) == ["old"]
    assert names(client.list(older_than=3 * 3600)) == []


def test_a_list_finds_the_text_of_an_error_literally(client: Client, db: Database) -> None:
    for thread_id, message in (("A", 'HTTP 500: "Zoë\\100%"\0'), ("B", "a_b"), ("C", "axb")):
        client.start("ten", thread_id, {})
        reason = json.dumps({"why": "w", "message": message}, ensure_ascii=False)
        held = "update keepstep.heads set status = 'held', reason = cast(:r as json) where id = :id"
        db.run(sa.text(held), {"r": reason, "id": client.get("ten", thread_id).id})
    assert names(client.list(error="http 500")) == ["A"]
    assert names(client.list(error='"Zoë\\100%"')) == ["A"]
    assert names(client.list(error="a_b")) == ["B"]
    assert names(client.list(error="%")) == ["A"]


def test_pages_show_each_case_once_while_cases_come_and_go(client: Client, db: Database) -> None:
    client.start_many("ten", {f"A{n}": {} for n in range(25)})
    db.run(sa.text("update keepstep.cases set created_at = date_trunc('hour', created_at)"), {})  # all at one instant
    seen, cursor, pages = [], None, 0
    while True:
        page = client.list(limit=10, cursor=cursor)
        seen += names(page)
        client.start("ten", f"new{pages}", {})
        cursor, pages = page.cursor, pages + 1
        if cursor is None:
            break
    assert pages == 3
    assert sorted(seen) == sorted(f"A{n}" for n in range(25))
    assert client.list(limit=100).cursor is None


@pytest.mark.parametrize("cursor", ["", "nonsense", "2026-01-01", "ü", "AAAA"])
def test_a_cursor_that_no_list_gave_is_refused(client: Client, cursor: str) -> None:
    with pytest.raises(BadCursor):
        client.list(cursor=cursor)


FILTERS: dict[str, dict[str, Any]] = {
    "the newest": {},
    "a status that is rare": {"live": ["held"]},
    "a final status that is rare": {"ended": "failed"},
    "how a thread id begins": {"begins": "W777%"},
    "a tag that is rare": {"tags": '{"n": 5000}'},
    "a page": {"cursor_at": datetime.now(UTC) - timedelta(hours=1), "cursor_id": str(uuid4())},
}
NONE = dict.fromkeys(
    (
        *("workflow", "live", "ended", "statuses", "step", "parent", "tags", "older", "error", "begins"),
        *("cursor_at", "cursor_id"),
    )
) | {"limit": 51}


@pytest.fixture
def crowded(db: Database) -> Database:
    """10,000 cases: half have completed, half wait; ten are held, ten failed."""
    db.run(
        sa.text("""
with k as (
  insert into keepstep.cases (id, run, workflow, thread_id, input, tags, created_at, status, finished_at)
  select gen_random_uuid(), gen_random_uuid(), 'ten', 'W' || n, '{}', jsonb_build_object('n', n),
         now() - n * interval '1 s', case when n % 1000 = 1 then 'failed' when n % 2 = 1 then 'completed' end,
         case when n % 2 = 1 then now() end
    from generate_series(1, 10000) n returning id, thread_id, status
), c as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, attempt, schema_version, is_snapshot, payload)
  select id, 0, 'start', 'start', 'queued', 0, 1, true, '{}' from k
)
insert into keepstep.heads (id, workflow, seq, status, step, queue, timeout, in_doubt, schema_version, due_at,
                            snapshot_seq, reason)
select id, 'ten', 0, case when thread_id like '%000' then 'held' else 'waiting' end, 's2', 'keepstep', 60, 'retry', 1,
       'infinity', 0, '{"why": "w"}' from k where status is null
"""),
        {},
    )
    db.run(sa.text("analyze"), {})
    return db


@pytest.mark.parametrize("name", FILTERS)
def test_a_list_of_ten_thousand_cases_reads_few(crowded: Database, name: str) -> None:
    params = {**NONE, **FILTERS[name]}
    rows = crowded.all(sa.text(f"explain (analyze, buffers, format json) {reads.LIST}"), params)
    [plan] = rows[0][0]
    print(f"{name}: {plan['Execution Time']:.1f} ms, planned in {plan['Planning Time']:.1f} ms")
    assert "Seq Scan" not in _scans(plan["Plan"], "cases"), plan
    assert "Seq Scan" not in _scans(plan["Plan"], "checkpoints"), plan
    assert plan["Execution Time"] < 100, "a bound against mistakes, not a measurement"


def _scans(plan: dict[str, Any], table: str) -> list[str]:
    here = [plan["Node Type"]] if plan.get("Relation Name") == table else []
    return here + [found for below in plan.get("Plans", []) for found in _scans(below, table)]


# ----------------------------------------------------------------------------------------------------- looking back
def test_state_and_diff_look_back_at_any_checkpoint(client: Client, hand: Hand) -> None:
    ring = hand.start()
    hand.step(ring, 0, {"log": ["one"]})
    hand.step(ring, 1, {"log": ["one", "two"], "value": {"a/b": 1}})
    assert client.state("ten", "A", seq=0)["log"] == []
    assert client.state("ten", "A", seq=1)["log"] == ["one"]
    assert client.state("ten", "A") == client.get("ten", "A").state
    assert client.diff("ten", "A", 1, 2) == [
        {"op": "add", "path": "/log/-", "value": "two"},
        {"op": "replace", "path": "/value", "value": {"a/b": 1}},
    ]
    back = client.diff("ten", "A", 2, 0)
    assert delta.apply(client.state("ten", "A"), list(back)) == client.state("ten", "A", seq=0)
    assert client.diff("ten", "A", 1, 1) == []


def test_a_checkpoint_that_is_not_there_is_refused(client: Client, hand: Hand) -> None:
    hand.start()
    for seq in (1, -1):
        with pytest.raises(UnknownCheckpoint, match=f"no checkpoint {seq}; the latest is 0"):
            client.state("ten", "A", seq=seq)
    with pytest.raises(UnknownCheckpoint):
        client.diff("ten", "A", 0, 7)
    with pytest.raises(UnknownCase):
        client.diff("ten", "B", 0, 0)


# ---------------------------------------------------------------------------------------------------------------- why
def test_why_says_that_no_worker_is_alive(client: Client) -> None:
    client.start("ten", "A", {})
    told = client.why("ten", "A")
    assert str(told).startswith("It waits for a worker to take s1 on the queue keepstep. No worker is alive.")
    assert told.commands == ("keepstep --workflows MODULE worker -Q keepstep",)


def test_why_says_that_no_worker_reads_its_queue(client: Client, db: Database) -> None:
    client.start("ten", "A", {}, queue="slow")
    node(db, ["keepstep", "other"], {"ten": 1})
    assert "No live worker reads this queue; read are keepstep, other." in str(client.why("ten", "A"))


def test_why_says_that_no_worker_knows_its_workflow_or_version(client: Client, db: Database) -> None:
    client.start("ten", "A", {})
    node(db, ["keepstep"], {"once": 1})
    assert "1 live worker of this queue can't take it: none knows the workflow ten." in str(client.why("ten", "A"))
    node(db, ["keepstep"], {"ten": 1})
    assert "1 live worker can take it" in str(client.why("ten", "A"))
    db.run(sa.text("update keepstep.heads set schema_version = 2"), {})
    assert "up to version 1 only, and this case's is of version 2" in str(client.why("ten", "A"))


def test_why_names_the_node_that_holds_the_lease_and_until_when(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start()
    node(db, ["keepstep"], {"ten": 1}, id=hand.claimant.owner)
    hand.claim(ring)
    told = str(client.why("ten", "A"))
    assert told.startswith("The node box (pid 17, last heartbeat ")
    assert "is running s1, and holds its lease until " in told
    assert "(in 59 min 59 s), the step's time limit" in told or "(in 1 h), the step's time limit" in told


def test_why_says_until_when_it_backs_off_and_because_of_what(client: Client, start_worker: StartWorker) -> None:
    slow = {"value": "raise"}
    start_worker()
    client.start("wrong", "A", slow)
    eventually(lambda: client.get("wrong", "A").status == "held")
    told = client.why("wrong", "A")
    assert told.sentence.startswith("It is held at misbehave: retries ran out")
    assert told.commands == ("keepstep retry wrong A",)
    assert any("OSError: the API is down" in line for line in told.details)


def test_why_says_what_a_back_off_is_about(client: Client, hand: Hand, db: Database) -> None:
    hand.start()
    backing_off = """update keepstep.heads set status = 'sleeping', attempt = 2, due_at = now() + interval '90 s',
                     reason = '{"type": "OSError", "message": "the API is down"}'"""
    db.run(sa.text(backing_off), {})
    told = str(client.why("ten", "A"))
    assert "It backs off until " in told
    assert "(in 1 min 30 s), because s1 failed (after 2 attempts) with OSError: the API is down." in told
    db.run(sa.text("""update keepstep.heads set reason = '{"type": "UnknownStep", "message": "no s1"}'"""), {})
    assert "No worker that was asked has code for its step s1" in str(client.why("ten", "A"))


def test_why_says_which_signal_it_waits_for_and_how_to_send_it(client: Client, hand: Hand) -> None:
    ring = hand.start(workflow=flows.approve)
    claim = hand.claim(ring)
    ask = flows.wait_for("approval", into="approval", payload=flows.Approval, prompt={"amount": 7}, timeout=3600)
    hand.commit(claim, ask)
    told = client.why("approve", "A")
    assert told.sentence.startswith("It waits for approval, until ")
    assert "(in 59 min 59 s)." in told.sentence or "(in 1 h)." in told.sentence
    assert told.details == ("asked: amount: 7",)
    [command] = told.commands
    assert command == """keepstep signal approve A approval --payload '{"approved": true}' --actor YOU"""


def test_why_says_that_it_sleeps_and_for_how_long(client: Client) -> None:
    client.start("ten", "A", {}, delay=timedelta(days=2))
    told = client.why("ten", "A")
    assert told.sentence.startswith("It sleeps until ")
    assert "(in 2 d)" in told.sentence or "(in 1 d 23 h)" in told.sentence
    assert told.moves == "Then s1 runs."


def test_why_says_who_paused_it(client: Client) -> None:
    client.start("ten", "A", {})
    client.pause("ten", "A", actor="ann", reason="the bank is closed")
    told = client.why("ten", "A")
    assert told.sentence.startswith("It was paused by ann ")
    assert "ago (the bank is closed), and no step begins until it is resumed." in told.sentence
    assert told.commands[0] == "keepstep resume ten A"


def test_why_says_that_it_has_ended(client: Client, hand: Hand) -> None:
    hand.step(hand.start("A", flows.once), 0)
    assert "It has gone through all its steps" in str(client.why("once", "A"))
    client.start("ten", "B", {})
    client.cancel("ten", "B", actor="bob")
    assert "It was cancelled" in str(client.why("ten", "B"))
    with pytest.raises(UnknownCase):
        client.why("ten", "nobody")


def test_a_list_is_quick_for_the_caller_too(client: Client, crowded: Database) -> None:
    for filters in ({}, {"status": "held"}, {"status": "failed"}, {"tags": {"n": 5000}}, {"error": "w"}):
        client.list(**filters)
        began = time.monotonic()
        found = client.list(**filters)
        print(f"{filters}: {len(found)} cases in {1000 * (time.monotonic() - began):.1f} ms")
        assert time.monotonic() - began < 1, "a bound against mistakes, not a measurement"
