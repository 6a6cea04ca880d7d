"""Steps that do what no step should: their own case is held with the reason, and no other case is held up."""

from __future__ import annotations

from typing import Any

import pytest

from keepstep import Client, Workflow
from tests import bad_flows
from tests.support.eventually import eventually
from tests.support.trace import Trace

ENV = {"KEEPSTEP_WORKFLOWS": "tests.bad_flows"}


@pytest.fixture
def workflows() -> list[Workflow]:
    return bad_flows.ALL


def held(client: Client, thread_id: str) -> Any:
    return eventually(lambda: (c := client.get("bad", thread_id)).status == "held" and c, 60, f"{thread_id} is held")


REASONS = {
    "unpicklable": "retries ran out",
    "MemoryError": "retries ran out",
    "recursion": "retries ran out",
    "generator": "bad result",
    "file": "bad result",
    "huge": "bad result",
    "_exit": "poison",
    "segfault": "poison",
}


def test_each_holds_its_own_case_with_the_reason_and_no_other(client: Client, start_worker, trace: Trace) -> None:
    worker = start_worker(env=ENV)
    for how in REASONS:
        client.start("bad", how, {"how": how})
        client.start("bad", f"beside {how}", {})
    for how, why in REASONS.items():
        case = held(client, how)
        assert case.reason["why"].startswith(why), (how, case.reason)
        assert case.seq == 0, "its last good checkpoint"
        assert client.wait("bad", f"beside {how}", 30).status == "completed"
    assert len({line.key for line in trace.lines("_exit")}) == 1
    assert len(trace.lines("_exit")) == 3
    assert worker.process.poll() is None


@pytest.mark.slow
def test_in_a_pool_of_threads_the_neighbours_of_poison_are_not_to_blame(client: Client, start_worker) -> None:
    """The whole worker dies, so every case that it ran is a suspect: counted apart, with a limit of its own."""
    env = {**ENV, "KEEPSTEP_MAX_CRASHES": "2", "KEEPSTEP_MAX_NODE_DEATHS": "4"}
    client.start("bad", "poison", {"how": "_exit"})
    for number in range(4):
        if number == 2:
            client.start("bad", "neighbour", {"how": "slow"})
        start_worker(env=env, pool="threads", concurrency=4, wait=False).process.wait(30)
    start_worker(env=env, pool="threads")
    assert held(client, "poison").reason["why"] == "its node died 4 times"
    assert client.wait("bad", "neighbour", 60).status == "completed"
    assert "crashed" not in {e.kind for e in client.history("bad", "neighbour")}


@pytest.mark.slow
def test_three_deploys_during_one_long_step_are_not_poison(client: Client, start_worker, trace: Trace) -> None:
    client.start("bad", "A", {"how": "slow"})
    for number in range(3):
        worker = start_worker(env={**ENV, "KEEPSTEP_MAX_CRASHES": "1", "KEEPSTEP_MAX_NODE_DEATHS": "1"})
        eventually(lambda n=number: len(trace.lines("A")) == n + 1, 30)
        for process in worker.tree():
            process.terminate()  # as a service manager does
        worker.process.wait(30)
    start_worker(env=ENV)
    assert client.wait("bad", "A", 60).status == "completed"
    assert [e.kind for e in client.history("bad", "A")] == ["start", *["released"] * 3, "step"]
