"""Workers that are really killed: the case goes on from its last checkpoint, and only the step in flight runs again."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import sweep
from keepstep.steps.keys import case_id
from keepstep.workers.failpoints import POINTS
from tests.support.eventually import eventually
from tests.support.failpoints import Failpoints
from tests.support.promises import kept
from tests.support.trace import Trace


def in_the_slow_step(client: Client, thread_id: str, trace: Trace) -> None:
    """Wait until the case is in the middle of its fifth step."""
    eventually(lambda: trace.lines(thread_id, "s5"), 20, "the slow step began")
    assert client.get("ten", thread_id).status == "running"


PLAIN = [p for p in POINTS if p not in ("intended", "answered", "recorded", "written", "born", "joined")]


@pytest.fixture
def points(tmp_path: Path) -> Failpoints:
    """Case A dies at its fifth step, once."""
    return Failpoints(tmp_path / "points")


@pytest.mark.parametrize("point", PLAIN)
def test_a_pool_child_killed_at_any_write_point_loses_nothing(
    client: Client, start_worker, trace: Trace, points: Failpoints, point: str
) -> None:
    points.arm(point, case_id("ten", "A"), 4, "kill")
    start_worker(env=points.env)
    client.start("ten", "A", {})
    client.wait("ten", "A", 30)
    assert points.armed() == [], "nothing was killed"
    runs = kept(client, trace, "A", twice={"s5"})
    assert runs["s5"] == (2 if point == "called" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("point", PLAIN)
@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_a_whole_worker_killed_at_any_write_point_loses_nothing(
    client: Client, start_worker, trace: Trace, points: Failpoints, point: str, pool: str
) -> None:
    points.arm(point, case_id("ten", "A"), 4, "kill")
    doomed = start_worker(pool=pool, env=points.env)
    client.start("ten", "A", {})
    assert doomed.process.wait(30) == -signal.SIGKILL
    start_worker(pool=pool)
    client.wait("ten", "A", 30)
    runs = kept(client, trace, "A", twice={"s5"})
    assert runs["s5"] == (2 if point == "called" else 1)


def test_a_pool_child_killed_in_the_middle_of_a_step(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("ten", "A", {"seconds": 1})
    in_the_slow_step(client, "A", trace)
    os.kill(trace.lines("A", "s5")[0].pid, signal.SIGKILL)
    client.wait("ten", "A", 30)
    assert kept(client, trace, "A", twice={"s5"})["s5"] == 2
    assert [e.kind for e in client.history("ten", "A") if e.step == "s5"] == ["crashed", "step"]


def test_a_killed_worker_leaves_nothing_in_the_temporary_directory(
    client: Client, start_worker, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    worker = start_worker(env={"TMPDIR": str(temporary)})
    client.start("ten", "A", {})
    client.wait("ten", "A", 30)
    worker.kill()
    assert list(temporary.iterdir()) == []


def test_a_worker_tree_killed_and_started_again(client: Client, start_worker, trace: Trace) -> None:
    first = start_worker()
    client.start("ten", "A", {"seconds": 1})
    in_the_slow_step(client, "A", trace)
    first.kill()
    second = start_worker()
    client.wait("ten", "A", 30)
    assert kept(client, trace, "A", twice={"s5"})["s5"] == 2
    assert f"pid {first.pid} on {socket.gethostname()}, is taken for dead: its process is gone" in second.tail()
    assert "recovered 1 case, held 0: a node died" in second.tail()


@pytest.mark.parametrize("where", ["the same host", pytest.param("another host", marks=pytest.mark.slow)])
def test_a_worker_tree_killed_for_good_while_another_node_lives(
    client: Client, start_worker, trace: Trace, where: str
) -> None:
    two = [start_worker(), start_worker(env={"KEEPSTEP_HOST_ID": "elsewhere"} if where == "another host" else {})]
    client.start("ten", "A", {"seconds": 1})
    in_the_slow_step(client, "A", trace)
    running = trace.lines("A", "s5")[0].pid
    next(worker for worker in two if running in [process.pid for process in worker.tree()]).kill()
    client.wait("ten", "A", 30)
    assert kept(client, trace, "A", twice={"s5"})["s5"] == 2


@pytest.mark.slow
def test_a_frozen_machine_is_fenced_and_its_late_result_changes_nothing(
    client: Client, start_worker, trace: Trace
) -> None:
    frozen = start_worker(env={"KEEPSTEP_LEASE_SECONDS": "3"})
    client.start("ten", "A", {"seconds": 1})
    in_the_slow_step(client, "A", trace)
    frozen.freeze()
    start_worker(env={"KEEPSTEP_HOST_ID": "elsewhere", "KEEPSTEP_LEASE_SECONDS": "3"})
    client.wait("ten", "A", 30)
    frozen.thaw()
    late = eventually(lambda: [e for e in client.history("ten", "A") if e.kind == "late"], 20, "the zombie's result")
    assert [e.step for e in late] == ["s5"]
    assert kept(client, trace, "A", twice={"s5"})["s5"] == 2


def test_a_step_that_kills_its_process_every_time_is_held_as_poison_and_others_go_on(
    client: Client, start_worker, trace: Trace
) -> None:
    start_worker()
    client.start("wrong", "poison", {"value": "poison"})
    client.start("ten", "A", {})
    case = eventually(lambda: (c := client.get("wrong", "poison")).status == "held" and c, 40)
    assert case.reason["why"].startswith("poison")
    assert len(trace.lines("poison")) == 3
    client.wait("ten", "A", 30)
    kept(client, trace, "A")


def test_a_killed_step_under_in_doubt_hold_waits_for_a_person(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("careful", "A", {"seconds": 30})
    line = eventually(lambda: trace.lines("A"), 20)[0]
    os.kill(line.pid, signal.SIGKILL)
    case = eventually(lambda: (c := client.get("careful", "A")).status == "held" and c, 20)
    assert case.reason["why"].startswith("in doubt")
    assert len(trace.lines("A")) == 1


@pytest.mark.slow
def test_a_c_call_that_holds_the_gil_does_not_look_like_death(
    client: Client, start_worker, trace: Trace, db: Database
) -> None:
    start_worker(pool="threads", env={"KEEPSTEP_LEASE_SECONDS": "2"})
    start_worker(env={"KEEPSTEP_HOST_ID": "elsewhere", "KEEPSTEP_LEASE_SECONDS": "2"}, queues="other")
    client.start("wrong", "A", {"value": "gil", "seconds": 5})
    client.wait("wrong", "A", 30)
    assert len(trace.lines("A")) == 1
    assert not [e for e in client.history("wrong", "A") if e.kind == "node_died"]


def test_a_node_that_was_taken_for_dead_appears_again(client: Client, start_worker, db: Database) -> None:
    worker = start_worker()
    db.run(sweep.text("delete from keepstep.nodes"), {})
    worker.ready(db)
