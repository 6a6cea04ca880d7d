"""The broker is only a doorbell, and a restart of the database loses nothing. On servers of the test's own."""

from __future__ import annotations

import time

import pytest
import redis

from keepstep import Client
from keepstep.dev.servers import Servers
from tests.support.eventually import eventually
from tests.support.promises import kept
from tests.support.servers import Urls
from tests.support.trace import Trace

pytestmark = pytest.mark.usefixtures("servers")


def finished(client: Client, count: int) -> bool:
    return client.counts("ten").get("completed", 0) == count


def half_done(trace: Trace, count: int) -> bool:
    return len(trace.lines()) >= count * 4


def test_a_flush_of_the_broker_in_the_middle_of_a_hundred_cases_loses_nothing(
    client: Client, start_worker, trace: Trace, urls: Urls
) -> None:
    start_worker(concurrency=4)
    for i in range(100):
        client.start("ten", f"A{i}", {})
    eventually(lambda: half_done(trace, 100), 60)
    with redis.Redis.from_url(urls.valkey) as valkey:
        valkey.flushall()
    eventually(lambda: finished(client, 100), 90, "all cases complete")
    for i in range(100):
        kept(client, trace, f"A{i}")


@pytest.mark.slow
def test_a_broker_that_is_killed_three_times_and_comes_back_loses_nothing_and_ends_no_worker(
    client: Client, start_worker, trace: Trace, servers: Servers
) -> None:
    worker = start_worker(concurrency=4)
    for i in range(30):
        client.start("ten", f"A{i}", {})
    for part in (30, 100, 200):
        eventually(lambda n=part: len(trace.lines()) >= n, 60)
        servers.valkey.kill()
        servers.valkey.start()
    eventually(lambda: finished(client, 30), 90, "all cases complete")
    for i in range(30):
        kept(client, trace, f"A{i}")
    assert worker.process.poll() is None, worker.tail()


@pytest.mark.slow
def test_a_start_without_a_broker_returns_within_a_second_and_the_case_runs_when_it_is_back(
    client: Client, start_worker, trace: Trace, servers: Servers
) -> None:
    start_worker()
    client.start("ten", "before", {})
    client.wait("ten", "before", 30)
    servers.valkey.kill()
    for i in range(3):
        began = time.monotonic()
        assert client.start("ten", f"A{i}", {}).new
        assert time.monotonic() - began < 1.0
    assert client.get("ten", "A0").status == "queued"
    servers.valkey.start()
    for i in range(3):
        client.wait("ten", f"A{i}", 60)
        kept(client, trace, f"A{i}")


def test_an_immediate_restart_of_the_database_under_fifty_cases_runs_none_twice(
    client: Client, start_worker, trace: Trace, servers: Servers
) -> None:
    two = [start_worker(concurrency=3), start_worker(concurrency=3, env={"KEEPSTEP_HOST_ID": "elsewhere"})]
    for i in range(50):
        client.start("ten", f"A{i}", {"seconds": 0.3})
    eventually(lambda: half_done(trace, 50), 60)
    servers.postgres.restart_immediate()
    eventually(lambda: finished(client, 50), 90, "all cases complete")
    for i in range(50):
        kept(client, trace, f"A{i}")
    assert all(worker.process.poll() is None for worker in two), "no worker ended"
