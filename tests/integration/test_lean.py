"""The short ways around Celery's machinery: what people and tools see of a worker stays as in stock Celery."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psutil
import pytest
import redis
from celery import Celery

from keepstep import Client
from keepstep.checkpoint.ring import Ring
from keepstep.config.celery_options import broker_priority
from keepstep.config.settings import read_settings
from keepstep.workers.envelope import envelope
from tests import flows
from tests.support.eventually import eventually
from tests.support.heard import Heard
from tests.support.trace import Trace

STOCK = {"KEEPSTEP_LEAN": "false", "KEEPSTEP_PREPARED_STATEMENTS": "false"}


@pytest.fixture
def app(broker_url: str) -> Iterator[Celery]:
    """A stock Celery app on the same broker, as an operator's tools have it."""
    app = Celery("tools", broker=broker_url, set_as_current=False)
    yield app
    app.close()


def lists(broker_url: str) -> dict[str, int]:
    with redis.Redis.from_url(broker_url) as valkey:
        return {key.decode(): valkey.llen(key) for key in valkey.keys("*") if valkey.type(key) == b"list"}


# ----------------------------------------------------------------------------------------------------- the message
def test_a_message_is_the_same_as_celerys_own_but_for_its_ids(client: Client, broker_url: str) -> None:
    odd = "a 'quoted' \u00fc\u0001 id"
    client.start("ten", odd, {}, priority=7)
    named = {"workflow": "ten", "thread_id": odd, "step": "s1", "queue": "keepstep"}
    ring = Ring(case=client.get("ten", odd).id, seq=0, timeout=3600.0, priority=7, **named)
    with redis.Redis.from_url(broker_url) as valkey:
        [key] = valkey.keys("keepstep*")
        lean = json.loads(valkey.rpop(key))
        client._bell._send_by_celery([ring])
        [also] = valkey.keys("keepstep*")
        stock = json.loads(valkey.rpop(also))
    assert key == also, "the list of its priority"
    for message in (lean, stock):
        message["body"] = json.loads(base64.b64decode(message["body"]))
        for part, names in (
            ("headers", ("id", "root_id", "origin")),
            ("properties", ("correlation_id", "delivery_tag")),
        ):
            for name in names:
                assert message[part].pop(name)
        for name in ("reply_to", "argsrepr", "kwargsrepr"):  # stock Celery repeats whatever it was given there
            message["properties"].pop(name, None)
        message["properties"].pop("delivery_info")  # stock Celery names the queue's exchange
    missing = set(stock["headers"]) - set(lean["headers"])
    assert lean["body"] == stock["body"]
    assert lean["properties"] == stock["properties"]
    assert not missing
    assert {n: lean["headers"][n] for n in stock["headers"]} == stock["headers"]


def test_a_message_has_ids_of_its_own() -> None:
    options: dict[str, Any] = {"shadow": "w.s", "shown": "('A', 0)", "queue": "q", "timeout": 1.0, "priority": 4}
    one, two = (json.loads(envelope("c", 0, **options)) for _ in range(2))
    assert one["headers"]["id"] != two["headers"]["id"]
    assert one["headers"]["id"] == one["headers"]["root_id"] == one["properties"]["correlation_id"]


@pytest.mark.parametrize("worker", [{}, STOCK], ids=["lean worker", "stock worker"])
@pytest.mark.parametrize("sender", [True, False], ids=["lean sender", "stock sender"])
@pytest.mark.slow
def test_lean_and_stock_understand_each_other(
    database_url: str, broker_url: str, start_worker, worker: dict[str, str], sender: bool
) -> None:
    start_worker(env=worker)
    settings = read_settings(database_url=database_url, broker_url=broker_url, lean=sender)
    with Client(settings=settings, workflows=flows.ALL) as client:
        client.start("ten", "A", {}, priority=9)
        assert client.wait("ten", "A", 30).status == "completed"


@pytest.mark.parametrize("args", [[str(uuid4()), 0], [], ["no case", "x"]])
def test_a_message_that_somebody_else_made_ends_no_worker(
    client: Client, start_worker, app: Celery, broker_url: str, args: list[Any]
) -> None:
    app.conf.task_default_queue = "keepstep"
    app.send_task("keepstep.step", args=args, queue="keepstep")
    worker = start_worker()
    client.start("ten", "A", {})
    assert client.wait("ten", "A", 20).status == "completed"
    assert worker.process.poll() is None


def test_nothing_is_kept_in_redis_of_what_a_worker_has_taken(client: Client, start_worker, broker_url, trace) -> None:
    start_worker()
    client.start("ten", "A", {"seconds": 1})
    eventually(lambda: trace.lines("A", "s5"), 20)
    with redis.Redis.from_url(broker_url) as valkey:
        assert valkey.hlen("unacked") == 0
    client.wait("ten", "A", 20)


# ------------------------------------------------------------------------------------------------ what an operator sees
def test_inspect_shows_the_step_that_runs(client: Client, start_worker, app: Celery, trace: Trace) -> None:
    start_worker()
    client.start("ten", "A", {"seconds": 4})
    eventually(lambda: trace.lines("A", "s5"), 20)
    [tasks] = (app.control.inspect(timeout=3).active() or {}).values()
    assert [(task["name"], task["type"]) for task in tasks] == [("ten.s5", "keepstep.step")]
    assert tasks[0]["worker_pid"] == trace.lines("A", "s5")[0].pid
    assert tasks[0]["delivery_info"]["routing_key"] == "keepstep"


@pytest.mark.slow
def test_a_revoked_message_is_passed_over_and_the_case_goes_on_later(
    client: Client, start_worker, app: Celery, trace: Trace, broker_url: str
) -> None:
    client.start("once", "A", {})
    with redis.Redis.from_url(broker_url) as valkey:
        task_id = json.loads(valkey.lrange("keepstep", 0, 0)[0])["headers"]["id"]
        taken = valkey.rpop("keepstep")
        worker = start_worker()
        eventually(lambda: app.control.revoke(task_id, reply=True, timeout=1), 20)
        valkey.lpush("keepstep", taken)
    eventually(lambda: f"Discarding revoked task: once.only[{task_id}]" in worker.tail(), 20)
    assert client.wait("once", "A", 40).status == "completed", "rung again by the sweep, as another message"


@pytest.mark.slow
def test_a_terminated_step_goes_back(client: Client, start_worker, app: Celery, trace: Trace) -> None:
    start_worker()
    client.start("ten", "A", {"seconds": 6})
    eventually(lambda: trace.lines("A", "s5"), 20)
    [tasks] = (app.control.inspect(timeout=1.5).active() or {}).values()
    app.control.revoke(tasks[0]["id"], terminate=True, signal="SIGTERM")
    assert client.wait("ten", "A", 60).status == "completed"
    assert "released" in {e.kind for e in client.history("ten", "A")}


@pytest.mark.parametrize("inline", ["0", "5"])
def test_events_tell_of_every_step_once(client: Client, start_worker, app: Celery, inline: str) -> None:
    heard = Heard(app)
    start_worker(env={"KEEPSTEP_EVENTS": "true", "KEEPSTEP_INLINE_SECONDS": inline})
    eventually(heard.anything, 20)
    client.start("ten", "A", {})
    client.wait("ten", "A", 30)
    eventually(lambda: len(heard.of("task-succeeded")) == 10, 20, "ten events of success")
    heard.close()
    received = heard.of("task-received")
    assert sorted(event["name"] for event in received) == sorted(f"ten.s{i}" for i in range(1, 11))
    assert len(heard.of("task-started")) == 10
    assert {event["uuid"] for event in heard.of("task-succeeded")} == {event["uuid"] for event in received}
    assert all("'A'" in event["args"] for event in received)


@pytest.mark.parametrize("concurrency", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_pool_process_that_dies_is_noticed_at_once_twenty_times(
    client: Client, start_worker, trace: Trace, concurrency: int
) -> None:
    start_worker(env={"KEEPSTEP_MAX_CRASHES": "100"}, concurrency=concurrency)
    client.start("once", "A", {"seconds": 30})
    gaps, killed = [], 0.0
    for number in range(1, 21):
        lines = eventually(lambda n=number: len(lines := trace.lines("A")) == n and lines, 20, f"attempt {number} runs")
        gaps += [lines[-1].at - killed] if number > 1 else []
        victim = psutil.Process(lines[-1].pid)
        victim.kill()
        killed = eventually(lambda v=victim: gone(v), 10, every=0.005)
    print(f"from the death to the step's code: worst {max(gaps):.2f} s of {len(gaps)}")
    assert sorted(gaps)[len(gaps) // 2] < 4, "not by the pool's timer of five seconds"


def gone(process: psutil.Process) -> float | None:
    """When a process was seen to be dead; None while it lives."""
    try:
        return time.time() if process.status() == psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return time.time()


@pytest.mark.slow
def test_who_listens_to_celerys_signals_gets_the_stock_way(
    client: Client, start_worker, tmp_path, trace: Trace
) -> None:
    module = tmp_path / "listening_flows.py"
    module.write_text(
        "from celery import signals\n"
        "from tests.flows import ten\n"
        "@signals.task_prerun.connect(weak=False)\n"
        "def heard(task=None, **_):\n"
        f"    open({str(tmp_path / 'heard')!r}, 'a').write(task.request.shadow + '\\n')\n"
    )
    start_worker(env={"KEEPSTEP_WORKFLOWS": "listening_flows", "PYTHONPATH": f"{tmp_path}:{os.getcwd()}"})
    client.start("ten", "A", {})
    client.wait("ten", "A", 30)
    eventually(lambda: (tmp_path / "heard").read_text().split() == [f"ten.s{i}" for i in range(1, 11)], 10)


def test_the_lists_of_priorities_are_those_of_the_stock_way(client: Client, broker_url: str) -> None:
    for priority in (None, 0, 9):
        client.start("ten", f"P{priority}", {}, priority=priority)
    lean = lists(broker_url)
    client._bell._line = None
    for priority in (None, 0, 9):
        client.start("ten", f"Q{priority}", {}, priority=priority)
    assert {name: n - lean[name] for name, n in lists(broker_url).items()} == lean
    assert broker_priority(None) == 4


def test_a_user_of_redis_who_may_not_take_many_at_once_takes_one_by_one(
    client: Client, start_worker, broker_url: str
) -> None:
    with redis.Redis.from_url(broker_url) as valkey:
        valkey.execute_command("ACL", "SETUSER", "frugal", "on", ">pw", "~*", "&*", "+@all", "-blmpop")
    url = broker_url.replace("redis://", "redis://frugal:pw@")
    worker = start_worker(env={"KEEPSTEP_BROKER_URL": url}, concurrency=4)
    client.start("ten", "A", {})
    assert client.wait("ten", "A", 30).status == "completed"
    assert worker.process.poll() is None
