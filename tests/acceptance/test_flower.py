"""What people see in Flower: step names and thread ids, never a state."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from keepstep import Client
from keepstep.dev.ports import free_port
from tests.acceptance.cli import COMMAND
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.worker import ROOT

SECRET = "a-secret-of-the-customer"


class Flower:
    """`keepstep flower`, and its HTTP API."""

    def __init__(self, env: dict[str, str], log: Path):
        self.log, self.port = log, free_port()
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "flower", "--port", str(self.port)],
                env={**os.environ, **env, "FLOWER_UNAUTHENTICATED_API": "true"},
                cwd=ROOT,
                stdout=out,
                stderr=out,
            )

    def is_listening(self) -> bool:
        """Whether it has connected to the workers' events."""
        assert self.process.poll() is None, self.log.read_text()
        return "Connected to" in self.log.read_text()

    def get(self, path: str) -> Any:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)

    def tasks(self) -> list[dict[str, Any]]:
        return list(self.get("/api/tasks?limit=1000").values())


def sent_events(channel: Any) -> Iterator[dict[str, Any]]:
    """The events as they really went through the broker: one or a batch in each message, in base64."""
    for message in iter(lambda: channel.get_message(timeout=0.5), None):
        if message["type"] == "pmessage":
            body = json.loads(base64.b64decode(json.loads(message["data"])["body"]))
            yield from body if isinstance(body, list) else [body]


@pytest.fixture
def flower(worker_env: dict[str, str], tmp_path: Path) -> Iterator[Flower]:
    flower = Flower(worker_env, tmp_path / "flower.log")
    yield flower
    flower.process.kill()
    flower.process.wait()


def test_flower_shows_step_names_and_thread_ids_and_no_state(
    flower: Flower, client: Client, start_worker: StartWorker, broker_url: str
) -> None:
    number = urlsplit(broker_url).path.strip("/")  # what is published goes to all databases of a server
    with redis.Redis.from_url(broker_url) as valkey, valkey.pubsub() as events:
        eventually(
            lambda: any(peer["db"] == number and peer["psub"] != "0" for peer in valkey.client_list()),
            20,
            "Flower to hear of events",
        )
        start_worker()
        events.psubscribe(f"/{number}.celeryev*")
        for number in range(5):
            client.start("ten", f"FL-{number}", {"log": [SECRET]})
        for number in range(5):
            client.wait("ten", f"FL-{number}")
        tasks = eventually(lambda: (t := flower.tasks()) and sum(x["state"] == "SUCCESS" for x in t) == 50 and t, 20)
        raw = list(sent_events(events))

    assert {task["name"] for task in tasks} == {f"ten.s{n}" for n in range(1, 11)}
    assert {task["args"] for task in tasks} == {f"('FL-{case}', {seq})" for case in range(5) for seq in range(10)}
    assert {task["kwargs"] for task in tasks} == {"{}"}
    assert SECRET not in json.dumps(tasks)
    seen = [event for event in raw if event["type"].startswith("task-")]
    assert {event["type"] for event in seen} == {"task-received", "task-started", "task-succeeded"}
    assert len(seen) == 150
    assert SECRET not in json.dumps(raw)


def test_flower_listens_on_the_loopback_interface_only(flower: Flower) -> None:
    eventually(flower.is_listening, 20, "Flower to connect")
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    at = [line.split()[1] for line in listening.splitlines() if line.split()[1].endswith(f":{flower.port:04X}")]
    assert "0100007F:" + f"{flower.port:04X}" in at
    assert not [address for address in at if address.startswith("00000000")]


def test_flower_says_at_its_start_where_it_is_and_nothing_that_is_no_news(flower: Flower) -> None:
    eventually(flower.is_listening, 20, "Flower to connect")
    flower.get("/api/workers?refresh=1")
    log = flower.log.read_text()
    assert f"Visit me at http://127.0.0.1:{flower.port}" in log
    assert "celery.chord" not in log
    assert "Inspect method" not in log


def test_flower_ends_when_it_is_told_to_also_while_all_it_needs_is_away(tmp_path: Path) -> None:
    away = {"KEEPSTEP_BROKER_URL": "redis://127.0.0.1:1/0", "KEEPSTEP_DATABASE_URL": "postgresql://x@127.0.0.1:1/x"}
    flower = Flower(away, tmp_path / "flower.log")
    try:
        eventually(lambda: "trying again" in flower.log.read_text(), 20, "Flower to look for the broker")
        flower.process.terminate()
        assert flower.process.wait(5) == 0
        assert "Traceback" not in flower.log.read_text()
    finally:
        flower.process.kill()
