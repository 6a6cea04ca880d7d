"""Cases run to their end on real workers, and every outcome does what it says."""

from __future__ import annotations

import pytest

from keepstep import Client
from keepstep.checkpoint.database import Database
from tests.support.eventually import eventually
from tests.support.trace import Trace

POOLS = ["prefork", "threads", "solo"]


@pytest.mark.parametrize("pool", POOLS)
def test_a_case_runs_each_step_once_in_order(client: Client, start_worker, trace: Trace, pool: str) -> None:
    start_worker(pool=pool)
    client.start("ten", "A", {})
    case = client.wait("ten", "A", timeout=20)
    assert case.status == "completed"
    assert case.state["log"] == [f"s{i}" for i in range(1, 11)]
    assert [line.step for line in trace.lines("A")] == case.state["log"]
    assert len({line.key for line in trace.lines("A")}) == 10


def test_outcomes_lead_where_they_say(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("approve", "yes", {})
    client.start("approve", "no", {})
    client.start("sleeper", "nap", {"seconds": 0.5})
    client.start("coroutine", "async", {})
    for thread_id in ("yes", "no"):
        eventually(lambda t=thread_id: client.get("approve", t).status == "waiting")
        assert client.waits("approve", thread_id)[0]["prompt"] == {"n": 0}
    client.signal("approve", "yes", "approval", {"approved": True}, actor="underwriter-7")
    client.signal("approve", "no", "approval", {"approved": False})
    yes, no = client.wait("approve", "yes", 20), client.wait("approve", "no", 20)
    assert yes.state["log"] == ["ask", "act", "done"]
    assert yes.state["approval"] == {"approved": True, "actor": "underwriter-7", "note": None}
    assert no.state["log"] == ["ask", "act", "decline"]
    assert client.wait("sleeper", "nap", 20).state["log"] == ["before", "after"]
    before, after = (trace.lines("nap", step)[0].at for step in ("before", "after"))
    assert after - before >= 0.5
    assert client.wait("coroutine", "async", 20).state["log"] == ["wait_politely"]


def test_a_deadline_leads_to_on_timeout_or_fails_the_case(client: Client, start_worker) -> None:
    start_worker()
    client.start("expiring", "goes-on", {"seconds": 0.3, "value": "escalate"})
    client.start("expiring", "fails", {"seconds": 0.3})
    client.start("expiring", "answered", {"seconds": 300})
    eventually(lambda: client.get("expiring", "answered").status == "waiting")
    client.signal("expiring", "answered", "approval", {"approved": True})
    assert client.wait("expiring", "goes-on", 20).state["log"] == ["escalate"]
    failed = client.wait("expiring", "fails", 20)
    assert failed.status == "failed"
    assert "deadline" in failed.error["message"]
    assert client.wait("expiring", "answered", 20).state["log"] == ["answered"]


def test_a_step_that_raises_backs_off_and_is_tried_again_under_one_key(
    client: Client, start_worker, trace: Trace
) -> None:
    start_worker()
    client.start("wrong", "once", {"value": "raise once"})
    assert client.wait("wrong", "once", 20).status == "completed"
    lines = trace.lines("once")
    assert [line.attempt for line in lines] == [1, 2]
    assert len({line.key for line in lines}) == 1


def test_retries_that_run_out_hold_the_case_and_an_operator_lets_it_go_on(
    client: Client, start_worker, trace: Trace
) -> None:
    start_worker()
    client.start("wrong", "A", {"value": "raise"})
    case = eventually(lambda: (c := client.get("wrong", "A")).status == "held" and c, 20)
    assert len(trace.lines("A")) == 3
    assert case.reason["why"] == "retries ran out"
    assert case.reason["message"] == "the API is down"
    client.retry("wrong", "A")
    eventually(lambda: len(trace.lines("A")) == 6, 20)
    assert len({line.key for line in trace.lines("A")}) == 1


@pytest.mark.parametrize(
    ("value", "why"), [("permanent", "no such customer"), ("fail", "not eligible")], ids=["permanent", "fail"]
)
def test_a_permanent_error_fails_the_case_at_once(client: Client, start_worker, trace: Trace, value, why) -> None:
    start_worker()
    client.start("wrong", "A", {"value": value})
    case = client.wait("wrong", "A", 20)
    assert case.status == "failed"
    assert why in case.error["message"]
    assert len(trace.lines("A")) == 1
    assert case.state == {"seconds": 0.0, "log": [], "value": value, "approval": None}


def test_bad_results_hold_the_case_at_its_last_good_checkpoint(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    expected = {
        "nan": ("BadState", "/value", "nan"),
        "object": ("BadState", "/value", "object"),
        "surrogate": ("BadState", "/value", "surrogate"),
        "large": ("StateTooLarge", "", "20,000,"),
        "type": ("BadOutcome", None, "int"),
        "nowhere": ("UnknownStep", None, "nowhere"),
    }
    for value in expected:
        client.start("wrong", value, {"value": value})
    for value, (kind, path, word) in expected.items():
        case = eventually(lambda v=value: (c := client.get("wrong", v)).status == "held" and c, 20)
        assert case.reason["type"] == kind
        assert case.reason.get("path") == path
        assert word in case.reason["message"]
        assert case.state["log"] == [], "nothing is half written"
        assert case.seq == 0
        assert len(trace.lines(value)) == 1, "a bad result is permanent: not tried again"


def test_what_is_odd_but_legal_goes_on(client: Client, start_worker) -> None:
    start_worker()
    client.start("wrong", "nul", {"value": "nul"})
    assert client.wait("wrong", "nul", 20).state["value"] == "a\0b"
    client.start("wrong", "exit", {"value": "exit"})
    case = eventually(lambda: (c := client.get("wrong", "exit")).status == "held" and c, 20)
    assert case.reason["type"] == "SystemExit"


@pytest.mark.parametrize("pool", POOLS)
def test_whatever_a_step_raises_is_a_failure_of_the_step_and_the_worker_goes_on(
    client: Client, start_worker, pool: str
) -> None:
    worker = start_worker(pool=pool)
    raised = {"base": "Odd", "cancelled": "CancelledError", "interrupt": "KeyboardInterrupt"}
    for value in raised:
        client.start("wrong", value, {"value": value})
    for value, kind in raised.items():
        case = eventually(lambda v=value: (c := client.get("wrong", v)).status == "held" and c, 20)
        assert (case.reason["why"], case.reason["type"], case.crashes) == ("retries ran out", kind, 0)
    client.start("ten", "A", {})
    client.wait("ten", "A", 20)
    assert worker.process.poll() is None


def test_a_step_is_interrupted_at_its_timeout_and_tried_again(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("hanging", "A", {"seconds": 30})
    case = eventually(lambda: (c := client.get("hanging", "A")).status == "held" and c, 20)
    assert [line.attempt for line in trace.lines("A")] == [1, 2]
    assert "timeout" in case.reason["message"]
    assert case.failures == 1, "the second one is in the reason; none is charged twice"


def test_in_doubt_hold_asks_a_person_unless_the_error_is_safe(client: Client, start_worker, trace: Trace) -> None:
    start_worker()
    client.start("careful", "doubt", {"value": "raise"})
    client.start("careful", "safe", {"value": "safe"})
    case = eventually(lambda: (c := client.get("careful", "doubt")).status == "held" and c, 20)
    assert case.reason["why"].startswith("in doubt")
    assert len(trace.lines("doubt")) == 1
    assert client.wait("careful", "safe", 20).status == "completed"


def test_a_worker_that_stops_in_order_leaves_no_node_behind(client: Client, start_worker, db: Database) -> None:
    from keepstep.checkpoint.sql import nodes

    for pool in POOLS:
        worker = start_worker(pool=pool)
        assert worker.stop() == 0, worker.tail()
        assert db.all(nodes.LIST) == []
