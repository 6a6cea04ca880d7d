"""A worker that is told to end is not dead, and the step is not to blame."""

from __future__ import annotations

import os
import signal
import time

import pytest

from keepstep import Client
from tests import doubt_flows
from tests.support.eventually import eventually
from tests.support.promises import kept
from tests.support.trace import Trace

QUICK_JUDGE = {"KEEPSTEP_HOST_ID": "elsewhere", "KEEPSTEP_LEASE_SECONDS": "2"}


@pytest.mark.parametrize(
    "pool",
    ["prefork", pytest.param("threads", marks=pytest.mark.slow), pytest.param("solo", marks=pytest.mark.slow)],
)
def test_a_step_that_finishes_during_a_warm_shutdown_is_not_called_again(
    client: Client, start_worker, trace: Trace, pool: str
) -> None:
    leaving = start_worker(pool=pool, env={"KEEPSTEP_LEASE_SECONDS": "2"})
    client.start("ten", "A", {"seconds": 6})
    eventually(lambda: trace.lines("A", "s5"), 20)
    start_worker(pool=pool, env=QUICK_JUDGE)
    assert leaving.stop() == 0, leaving.tail()
    client.wait("ten", "A", 30)
    kept(client, trace, "A")


@pytest.mark.parametrize("whom", ["the whole group", "the pool's process"])
def test_a_sigterm_in_the_middle_of_a_step_gives_the_case_back_and_charges_nobody(
    client: Client, start_worker, trace: Trace, whom: str
) -> None:
    leaving = start_worker()
    client.start("once", "A", {"seconds": 3})
    running = eventually(lambda: trace.lines("A"), 20)[0].pid
    if whom == "the whole group":
        os.killpg(leaving.pid, signal.SIGTERM)
        leaving.process.wait(30)
        start_worker()
    else:
        os.kill(running, signal.SIGTERM)
    case = client.wait("once", "A", 30)
    assert case.status == "completed", "one attempt is all it has, and a deploy didn't use it up"
    assert len({line.key for line in trace.lines("A", "only")}) == 1, "its hook's call has another"
    kinds = [e.kind for e in client.history("once", "A")]
    assert kinds == ["start", "released", "step"]


def test_a_cold_shutdown_gives_back_what_it_was_running(client: Client, start_worker, trace: Trace) -> None:
    leaving = start_worker(pool="threads")
    client.start("ten", "A", {"seconds": 2})
    eventually(lambda: trace.lines("A", "s5"), 20)
    start_worker(env={"KEEPSTEP_HOST_ID": "elsewhere"})
    leaving.process.send_signal(signal.SIGQUIT)
    client.wait("ten", "A", 60)
    kept(client, trace, "A", twice={"s5"})
    assert not [e for e in client.history("ten", "A") if e.kind in ("crashed", "node_died")]


SOON = {"KEEPSTEP_SHUTDOWN_SECONDS": "1"}
POOLS = ["prefork", pytest.param("threads", marks=pytest.mark.slow), pytest.param("solo", marks=pytest.mark.slow)]


@pytest.mark.parametrize("pool", POOLS)
def test_a_step_that_outlasts_its_workers_time_goes_on_elsewhere_within_a_second(
    client: Client, start_worker, trace: Trace, pool: str
) -> None:
    leaving = start_worker(pool=pool, concurrency=1, env=SOON)
    client.start("once", "A", {"seconds": 5})
    eventually(lambda: trace.lines("A"), 20)
    start_worker(env={"KEEPSTEP_HOST_ID": "elsewhere"})
    told = time.time()
    assert leaving.stop(15) == 0, leaving.tail()
    eventually(lambda: len(trace.lines("A", "only")) == 2, 10, "another worker took it")
    waited = trace.lines("A", "only")[1].at - told
    print(f"{pool}: {waited:.2f} s")
    assert 1.0 <= waited < 1.0 + 1.0, "its second, and at the most one more"
    assert client.wait("once", "A", 30).status == "completed", "one attempt is all it has"
    assert [e.kind for e in client.history("once", "A")] == ["start", "released", "step"]
    first, second = trace.lines("A", "only")
    assert first.key == second.key


@pytest.mark.parametrize("pool", POOLS)
def test_a_call_that_must_not_be_repeated_is_held_when_its_workers_time_is_over(
    client: Client, start_worker, trace: Trace, pool: str
) -> None:
    leaving = start_worker(pool=pool, concurrency=1, env=SOON)
    client.start("careful", "A", {"seconds": 30})
    eventually(lambda: trace.lines("A"), 20)
    assert leaving.stop(15) == 0, leaving.tail()
    case = client.get("careful", "A")
    assert case.status == "held"
    assert case.reason is not None
    assert "nobody knows whether the call took effect" in case.reason["why"]
    assert (case.crashes, len(trace.lines("A"))) == (0, 1)


def test_a_call_that_can_be_looked_up_is_verified_by_another_worker(client: Client, start_worker, trace: Trace) -> None:
    env = {"KEEPSTEP_WORKFLOWS": "tests.doubt_flows", "KEEPSTEP_SETTLING_SECONDS": "0.1"}
    leaving = start_worker(concurrency=1, env={**env, **SOON})
    client.start(doubt_flows.verified, "A", {"raises": ["hang"]})
    eventually(lambda: trace.lines("A", "pay"), 20)
    start_worker(env={**env, "KEEPSTEP_HOST_ID": "elsewhere"})
    assert leaving.stop(15) == 0, leaving.tail()
    assert client.wait("verified", "A", 30).state["receipt"] == "found"
    assert (len(trace.lines("A", "pay")), len(trace.lines("A", "verify"))) == (1, 1)


def test_a_process_that_can_not_be_interrupted_is_killed_and_its_step_is_not_charged(
    client: Client, start_worker, trace: Trace
) -> None:
    """A C call that holds the GIL: no Python handler runs in it."""
    leaving = start_worker(concurrency=1, env=SOON)
    client.start("wrong", "A", {"value": "gil", "seconds": 60})
    eventually(lambda: trace.lines("A"), 20)
    assert leaving.stop(25) == 0, leaving.tail()
    case = client.get("wrong", "A")
    assert (case.status, case.crashes) == ("queued", 0)
    assert [e.kind for e in client.history("wrong", "A")] == ["start", "released"]


def test_a_worker_that_is_told_to_end_takes_nothing_more(client: Client, start_worker, trace: Trace) -> None:
    leaving = start_worker(concurrency=1)
    client.start("once", "A", {"seconds": 3})
    eventually(lambda: trace.lines("A"), 20)
    leaving.process.send_signal(signal.SIGTERM)
    eventually(lambda: "Warm shutdown" in leaving.tail(), 10)
    client.start_many("once", [(f"B{n}", {}) for n in range(5)])
    assert leaving.process.wait(30) == 0, leaving.tail()
    assert client.get("once", "A").status == "completed"
    assert {client.get("once", f"B{n}").status for n in range(5)} == {"queued"}
