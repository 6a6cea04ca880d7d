"""A worker that is told to end is not dead, and the step is not to blame."""

from __future__ import annotations

import os
import signal

import pytest

from keepstep import Client
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
    assert len({line.key for line in trace.lines("A")}) == 1
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
