"""Cases that are steered while real workers run them."""

from __future__ import annotations

import pytest

from keepstep import Client
from tests.support.eventually import eventually
from tests.support.trace import Trace

POOLS = ["prefork", "threads"]


def late(client: Client, workflow: str, thread_id: str) -> list:
    return [e for e in client.history(workflow, thread_id) if e.kind == "late"]


@pytest.mark.parametrize("pool", POOLS)
def test_a_running_step_hears_that_it_is_cancelled_and_its_late_result_is_kept(
    client: Client, start_worker, trace: Trace, pool: str
) -> None:
    start_worker(pool=pool)
    client.start("listening", "A", {"seconds": 60})
    eventually(lambda: trace.lines("A", "listen"), 20, "the step began")
    client.cancel("listening", "A", actor="ann", reason="withdrawn")
    [result] = eventually(lambda: late(client, "listening", "A"), 10, "it heard, and ended long before its minute")
    assert {"op": "replace", "path": "/value", "value": "told"} in result.detail["error"]["change"]
    case = client.get("listening", "A")
    assert (case.status, case.seq, case.state["value"]) == ("cancelled", 0, None)
    assert trace.lines("A", "heard") == []


def test_a_step_that_nobody_cancels_hears_nothing(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("listening", "A", {"seconds": 1})
    assert client.wait("listening", "A", 20).state["value"] == "not told"


def test_a_rewound_case_runs_again_under_another_key_and_the_late_result_changes_nothing(
    client: Client, start_worker, trace: Trace
) -> None:
    start_worker()
    client.start("listening", "A", {"seconds": 60})
    eventually(lambda: trace.lines("A", "listen"), 20, "the step began")
    client.rewind("listening", "A", to=0, repeat_effects=True)
    eventually(lambda: late(client, "listening", "A"), 10, "the first one heard")
    first, second = eventually(lambda: len(trace.lines("A", "listen")) == 2 and trace.lines("A", "listen"), 20)
    assert first.key != second.key
    client.cancel("listening", "A")
    eventually(lambda: len(late(client, "listening", "A")) == 2, 10)


def test_a_paused_case_stands_still_and_a_resumed_one_goes_on_at_once(
    client: Client, start_worker, trace: Trace
) -> None:
    start_worker()
    client.start("ten", "A", {"seconds": 1})
    eventually(lambda: trace.lines("A", "s5"), 20, "the slow step began")
    client.pause("ten", "A")
    eventually(lambda: client.get("ten", "A").step == "s6", 10, "its commit lands")
    client.start("ten", "B", {"seconds": 0})
    client.wait("ten", "B", 20)
    assert (client.get("ten", "A").status, trace.lines("A", "s6")) == ("queued", [])
    client.resume("ten", "A")
    assert client.wait("ten", "A", 5).state["log"] == [f"s{i}" for i in range(1, 11)]
    assert len(trace.lines("A")) == 10


def test_a_completed_case_is_restarted_and_forked_on_real_workers(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("ten", "A", {})
    first = client.wait("ten", "A", 20)
    client.fork("ten", "A", at=8, new_thread_id="B", repeat_effects=True)
    assert client.wait("ten", "B", 20).state["log"] == first.state["log"]
    assert [line.step for line in trace.lines("B")] == ["s9", "s10"]
    client.restart("ten", "A", repeat_effects=True)
    second = client.wait("ten", "A", 20)
    assert (second.state["log"], second.seq) == (first.state["log"], 21)
    keys = {line.key for thread in ("A", "B") for line in trace.lines(thread)}
    assert len(keys) == 22, "no key is used twice"
