"""Ten thousand waiting cases hold nothing: no message, no connection, no thread; and one signal wakes its case.

Whether they wait for a signal, or for their branches.
"""

from __future__ import annotations

import time

import psutil
import pytest
import redis
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from tests import branch_flows
from tests.support.crowd import crowd, crowd_of_parents
from tests.support.eventually import eventually
from tests.support.trace import Trace

SESSIONS = sa.text(
    "select count(*) as n from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
)


def test_ten_thousand_waiting_cases_hold_nothing_and_a_signal_wakes_one(
    client: Client, start_worker, db: Database, trace: Trace, broker_url: str
) -> None:
    worker = start_worker(concurrency=2)
    client.start("approve", "A", {})
    eventually(lambda: client.get("approve", "A").status == "waiting")
    sessions, threads = db.all(SESSIONS)[0].n, _threads(worker)
    crowd(db, 10_000)
    beat = sa.text("select beat from keepstep.nodes")
    before = db.all(beat)[0].beat
    eventually(lambda: db.all(beat)[0].beat >= before + 3, message="three sweeps have seen the crowd")
    assert client.counts("approve")["waiting"] == 10_001
    assert db.all(SESSIONS)[0].n <= sessions
    assert _threads(worker) <= threads
    with redis.Redis.from_url(broker_url) as valkey:
        assert valkey.llen("keepstep") == 0
        assert valkey.hlen("unacked") == 0
    sent = time.time()
    client.signal("approve", "A", "approval", {"approved": True})
    line = eventually(lambda: trace.lines("A", "act"), 10, every=0.002)[0]
    print(f"the step behind the wait ran {(line.at - sent) * 1000:.0f} ms after the signal")


@pytest.mark.slow
def test_ten_thousand_cases_that_wait_for_branches_hold_nothing_and_a_branch_wakes_its_own(
    start_worker, database_url: str, broker_url: str, db: Database
) -> None:
    with Client(database_url, broker_url, workflows=branch_flows.ALL) as client:
        worker = start_worker(concurrency=2, env={"KEEPSTEP_WORKFLOWS": "tests.branch_flows"})
        client.start("fanning", "A", {"over": [{"n": 1, "does": "ask"}]})
        branch = "fanning.branches", "A/work#1[0]"
        eventually(lambda: client.counts("fanning.branches").get("waiting") == 1)
        sessions, threads = db.all(SESSIONS)[0].n, _threads(worker)
        crowd_of_parents(db, 10_000)
        due = sa.text("select count(*) as n from keepstep.heads where due_at < clock_timestamp()")
        db.run(sa.text("update keepstep.heads set due_at = clock_timestamp() where workflow = 'fanning'"), {})
        eventually(lambda: db.all(due)[0].n == 0, 30, "the sweep has looked at them all")
        assert client.counts("fanning")["waiting"] == 10_001
        assert db.all(SESSIONS)[0].n <= sessions
        assert _threads(worker) <= threads
        with redis.Redis.from_url(broker_url) as valkey:
            assert valkey.llen("keepstep") == 0
            assert valkey.hlen("unacked") == 0
        client.signal(*branch, "answer", 42)
        assert client.wait("fanning", "A", timeout=10.0).state["results"] == [42]


def _threads(worker) -> int:
    return sum(p.num_threads() for p in worker.tree() if p.status() != psutil.STATUS_ZOMBIE)
