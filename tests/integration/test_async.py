"""Async steps share one loop per process, and many steps that wait need few connections."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from tests import async_flows
from tests.support.eventually import eventually

ENV = {"KEEPSTEP_WORKFLOWS": "tests.async_flows"}


@pytest.fixture
def workflows() -> list[Workflow]:
    return async_flows.ALL


def run_at_once(client: Client, workflow: str, count: int, seconds: float) -> float:
    """How long it takes until all have completed."""
    began = time.monotonic()
    client.start_many(workflow, {f"A{i}": {"seconds": seconds} for i in range(count)})
    eventually(lambda: client.counts(workflow).get("completed", 0) == count, 60, every=0.02)
    return time.monotonic() - began


def sessions(db: Database) -> int:
    like = "select count(*) as n from pg_stat_activity where application_name = 'keepstep worker'"
    return int(db.all(sa.text(f"{like} and datname = current_database()"))[0].n)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_bad_coroutine_fails_its_own_step_and_no_other(client: Client, start_worker, pool: str) -> None:
    start_worker(env=ENV, pool=pool)
    for how in ("exit", "cancel", "cancel itself"):
        client.start("waits", how, {"how": how, "seconds": 0.01})
    client.start("waits", "good", {"seconds": 0.01})
    assert client.wait("waits", "good", 20).state["value"][0] == "keepstep-loop"
    for how in ("exit", "cancel", "cancel itself"):
        held = eventually(lambda h=how: (c := client.get("waits", h)).status == "held" and c, 20)
        assert held.reason["why"] == "retries ran out"
    client.start("waits", "after", {"seconds": 0.01})
    assert client.wait("waits", "after", 20).status == "completed"


@pytest.mark.slow
def test_coroutines_wait_side_by_side_each_in_its_own_context(client: Client, start_worker, db: Database) -> None:
    start_worker(env=ENV, pool="threads", concurrency=200)
    took = run_at_once(client, "waits", 200, 2.0)
    print(f"200 coroutines of 2 s: {took:.2f} s, {sessions(db)} connections")
    values = [client.get("waits", f"A{i}").state["value"] for i in range(200)]
    assert [value[2] for value in values] == [f"A{i}" for i in range(200)]
    assert len({tuple(value[:2]) for value in values}) == 1, "one loop, one process"
    assert took < 100, "not one after the other"
    assert sessions(db) <= 10


@pytest.mark.slow
def test_many_steps_that_wait_need_few_connections(client: Client, start_worker, db: Database) -> None:
    start_worker(env=ENV, pool="threads", concurrency=200)
    took = run_at_once(client, "sleeps", 200, 2.0)
    print(f"200 threads of 2 s: {took:.2f} s, {sessions(db)} connections")
    assert sessions(db) <= 10


def test_a_coroutine_that_blocks_the_loop_keeps_no_later_one(client: Client, start_worker) -> None:
    start_worker(env=ENV, concurrency=1)
    client.start("stuck", "A", {"seconds": 30})
    eventually(lambda: client.get("stuck", "A").status == "held", 20)
    client.start("waits", "B", {"seconds": 0.01})
    assert client.wait("waits", "B", 10).status == "completed"
