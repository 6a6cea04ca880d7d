"""Batches: quick steps of several cases go together, and each is treated as if it were alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa
from celery import Celery

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from keepstep.steps.keys import case_id, idempotency_key
from tests import batch_flows
from tests.batch_flows import NAMES
from tests.support.company import largest
from tests.support.eventually import eventually
from tests.support.failpoints import Failpoints
from tests.support.heard import Heard
from tests.support.trace import Trace

ENV = {"KEEPSTEP_WORKFLOWS": "tests.batch_flows"}
WARM, CASES = 4, 32


@pytest.fixture
def workflows() -> list[Workflow]:
    return batch_flows.ALL


@pytest.fixture
def failpoints(tmp_path: Path) -> Failpoints:
    return Failpoints(tmp_path / "failpoints")


def warm(client: Client) -> None:
    """Let the worker learn that the steps are quick."""
    client.start_many("crowd", {f"W{i}": {} for i in range(WARM)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM, 20)


def kept(client: Client, trace: Trace, thread_id: str, *, at_most: int = 1) -> None:
    """One checkpoint a step, in order; each step's code ran so often at the most, under its one key."""
    case = client.get("crowd", thread_id)
    assert (case.status, case.state["log"]) == ("completed", NAMES)
    assert [e.step for e in client.history("crowd", thread_id) if e.kind in ("start", "step")] == ["start", *NAMES]
    assert max(Counter(line.step for line in trace.lines(thread_id)).values()) <= at_most
    for line in trace.lines(thread_id):
        assert line.key == str(idempotency_key(case.run, NAMES.index(line.step), line.step))


def attempts(db: Database) -> set[int]:
    """Which attempts the steps' checkpoints are of."""
    select = "select distinct attempt from keepstep.checkpoints where kind = 'step'"
    return {row.attempt for row in db.all(sa.text(select))}


def test_quick_steps_go_together_once_they_are_known_to_be_quick(
    client: Client, start_worker, trace: Trace, db: Database
) -> None:
    start_worker(env=ENV, concurrency=1)
    warm(client)
    client.start_many("crowd", {f"A{i}": {} for i in range(CASES)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 30)
    for i in range(CASES):
        kept(client, trace, f"A{i}")
    assert 2 < largest(db) <= 32
    assert attempts(db) == {1}


def test_a_setting_keeps_each_by_itself(client: Client, start_worker, db: Database) -> None:
    start_worker(env={**ENV, "KEEPSTEP_BATCH": "1"}, concurrency=1)
    warm(client)
    client.start_many("crowd", {f"A{i}": {} for i in range(CASES)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 30)
    assert largest(db) == 1


@pytest.mark.parametrize("inline", ["0", "1.4"])
def test_who_turns_out_slow_holds_nobody(client: Client, start_worker, trace: Trace, db: Database, inline: str) -> None:
    start_worker(env={**ENV, "KEEPSTEP_INLINE_SECONDS": inline}, concurrency=2)
    warm(client)
    slow = {"B7": {"how": "sleep", "seconds": 1.9}}
    client.start_many("crowd", {f"B{i}": slow.get(f"B{i}", {}) for i in range(CASES)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES - 1, 30)
    assert client.get("crowd", "B7").step == "s4", "the others are done while it sleeps"
    client.wait("crowd", "B7", 20)
    for i in range(CASES):
        kept(client, trace, f"B{i}")
    assert attempts(db) == {1}, "what was given back had not begun"


def test_who_turns_out_slow_leaves_the_other_processes_to_others(client: Client, start_worker, trace: Trace) -> None:
    start_worker(env=ENV, concurrency=2)
    warm(client)
    client.start_many("naps", {f"N{i}": {} for i in range(4)})
    eventually(lambda: client.counts("naps").get("completed") == 4, 20, "naps are known to be slow")
    client.start_many("crowd", {f"H{i}": {"how": "sleep", "seconds": 1.9} if i == 7 else {} for i in range(CASES)})
    eventually(lambda: trace.lines("H7", "s4"), 20)
    client.start_many("naps", {f"O{i}": {} for i in range(6)})
    eventually(lambda: client.counts("naps").get("completed") == 10, 20)
    assert client.get("crowd", "H7").step == "s4", "it still sleeps, with the messages of its company in hand"


def test_the_last_of_a_company_has_its_whole_timeout(client: Client, start_worker, trace: Trace) -> None:
    start_worker(env=ENV, concurrency=1)
    warm(client)
    names = sorted((f"L{i}" for i in range(16)), key=lambda name: case_id("crowd", name))
    nearly_slow = {name: {"how": "sleep", "seconds": 0.015} for name in names}
    client.start_many("crowd", {**nearly_slow, names[-1]: {"how": "hang"}})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + 16, 30)
    [raised] = [event for event in client.history("crowd", names[-1]) if event.kind == "raised"]
    began = next(line.at for line in trace.lines(names[-1], "s4"))
    assert raised.at.timestamp() - began >= 2.0, "the others' time is not its own"


def test_one_that_raises_and_one_that_hangs_fail_alone(client: Client, start_worker, trace: Trace) -> None:
    worker = start_worker(env=ENV, concurrency=1)
    warm(client)
    odd = {"C3": {"how": "raise"}, "C9": {"how": "hang"}}
    client.start_many("crowd", {f"C{i}": odd.get(f"C{i}", {}) for i in range(CASES)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 30)
    for i in range(CASES):
        kept(client, trace, f"C{i}", at_most=2 if f"C{i}" in odd else 1)
    outcomes = {
        name: [e.kind for e in client.history("crowd", name) if e.kind not in ("start", "step")] for name in odd
    }
    assert outcomes == {"C3": ["raised"], "C9": ["raised"]}
    assert "callback raised" not in worker.log.read_text(), "Celery's callbacks know their arguments"


def test_a_process_that_is_killed_takes_its_batch_along_and_loses_nothing(
    client: Client, start_worker, trace: Trace, db: Database, failpoints: Failpoints
) -> None:
    start_worker(env={**ENV, **failpoints.env}, concurrency=1)
    warm(client)
    for i in range(0, CASES, 4):
        failpoints.arm("called", case_id("crowd", f"D{i}"), 3, "kill")
    client.start_many("crowd", {f"D{i}": {} for i in range(CASES)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 60)
    assert not failpoints.armed()
    for i in range(CASES):
        kept(client, trace, f"D{i}", at_most=3)
    crashes = Counter(e.kind for i in range(CASES) for e in client.history("crowd", f"D{i}"))["crashed"]
    assert crashes < 8 * 16, "who was in company once when it died runs alone from then on"


def test_a_worker_that_ends_in_order_finishes_what_it_has_begun_and_gives_back_the_rest(
    client: Client, start_worker, trace: Trace, db: Database
) -> None:
    worker = start_worker(env=ENV, concurrency=1)
    warm(client)
    client.start_many("crowd", {f"E{i}": {"how": "sleep", "seconds": 0.5} for i in range(8)})
    eventually(lambda: trace.lines("E0", "s4"), 20)
    worker.stop()
    assert client.counts("crowd").get("running", 0) == 0
    start_worker(env=ENV, concurrency=4)
    eventually(lambda: client.counts("crowd").get("completed") == WARM + 8, 30)
    for i in range(8):
        kept(client, trace, f"E{i}")
    assert attempts(db) == {1}


def test_steps_that_wait_in_a_worker_whose_pool_is_busy_go_to_another(
    client: Client, start_worker, trace: Trace
) -> None:
    first = start_worker(env=ENV, concurrency=1)
    warm(client)
    client.start("hall", "F", {})
    eventually(lambda: trace.lines("F"), 20)
    client.start_many("crowd", {f"F{i}": {} for i in range(CASES)})
    start_worker(env=ENV, concurrency=1)
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 30)
    assert client.get("hall", "F").status == "running", "the first worker's only process was busy all the time"
    trace.open_gate()
    client.wait("hall", "F", 20)
    for i in range(CASES):
        kept(client, trace, f"F{i}")
    _, *children = first.tree()
    busy = {child.pid for child in children}
    assert not any(line.pid in busy for i in range(CASES) for line in trace.lines(f"F{i}"))


def test_those_that_go_on_inline_do_so_together(client: Client, start_worker, trace: Trace, db: Database) -> None:
    start_worker(env={**ENV, "KEEPSTEP_INLINE_SECONDS": "1.4"}, concurrency=2)
    warm(client)
    client.start_many("crowd", {f"I{i}": {} for i in range(CASES)})
    eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 30)
    for i in range(CASES):
        kept(client, trace, f"I{i}")
    assert 2 < largest(db) <= 32
    assert attempts(db) == {1}


@pytest.mark.parametrize("inline", ["0", "1.4"])
def test_each_step_has_its_own_events(client: Client, start_worker, broker_url: str, inline: str) -> None:
    with Celery(broker=broker_url, set_as_current=False) as app:
        heard = Heard(app)
        start_worker(env={**ENV, "KEEPSTEP_INLINE_SECONDS": inline}, concurrency=1)
        eventually(heard.anything, 20)
        warm(client)
        client.start_many("crowd", {f"G{i}": {} for i in range(CASES)})
        eventually(lambda: client.counts("crowd").get("completed") == WARM + CASES, 30)
        steps = (WARM + CASES) * len(NAMES)
        eventually(lambda: len(heard.of("task-succeeded")) >= steps, 10)
        heard.close()
    ids = {kind: [event["uuid"] for event in heard.of(f"task-{kind}")] for kind in ("received", "started", "succeeded")}
    assert [len(ids[kind]) for kind in ("started", "succeeded")] == [steps] * 2
    for found in ids.values():  # one that was put back, because the pool was busy, is received again
        assert len(set(found)) == steps
    assert any("." in uuid for uuid in ids["succeeded"]) == (inline != "0"), (
        "those that followed inline have no message"
    )


def test_only_who_runs_is_ended_by_its_revocation_and_nobody_in_its_company_is_revoked(
    client: Client, start_worker, trace: Trace, db: Database, broker_url: str
) -> None:
    def are_over(singers: int) -> bool:
        return client.counts("choir").get("completed") == singers

    with Celery(broker=broker_url, set_as_current=False) as app:
        heard = Heard(app)
        worker = start_worker(env=ENV, concurrency=1)
        eventually(heard.anything, 20)
        client.start_many("choir", {f"W{i}": {} for i in range(WARM)})
        eventually(lambda: are_over(WARM), 20)
        client.start_many("choir", {f"R{i}": {"how": "hang"} if i == 3 else {} for i in range(8)})
        eventually(lambda: trace.lines("R3"), 20)
        its = next(event["uuid"] for event in heard.of("task-received") if event["args"] == "('R3', 0)")

        def company() -> set[str]:
            started, over = ({e["uuid"] for e in heard.of(f"task-{what}")} for what in ("started", "succeeded"))
            return started - over if its in started else set()

        other = sorted(eventually(company) - {its})[0]
        owned = sa.text("select count(*) as n from keepstep.heads where owner is not null")
        eventually(lambda: db.all(owned)[0].n == 1, 20, "its company has left it")
        app.control.revoke(other, terminate=True)
        passed_over = f"[{other}] is revoked, but it doesn't run"
        eventually(lambda: passed_over in worker.log.read_text(), message="its case has left, or is done")
        app.control.revoke(its, terminate=True)
        eventually(lambda: are_over(WARM + 8), 30)
        eventually(lambda: heard.of("task-revoked"), 10)
        heard.close()
    assert {event["uuid"] for event in heard.of("task-revoked")} == {its, other}
    assert [line.attempt for line in trace.lines("R3")] == [1, 2]
    assert "released" in {e.kind for e in client.history("choir", "R3")}
    assert all(len(trace.lines(f"R{i}")) == 1 for i in range(8) if i != 3)
