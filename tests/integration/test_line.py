"""The line to Redis: while the broker is silent, whoever wants to push waits for others no longer than for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from celery import Celery
from redis.exceptions import TimeoutError as RedisTimeoutError

from keepstep.config.celery_options import celery_options
from keepstep.config.settings import read_settings
from keepstep.workers.line import AT_ONCE, Line

MESSAGE = {("line", 0): ["a message"]}


@pytest.fixture
def line(broker_url: str) -> Iterator[Line]:
    app = Celery("line", set_as_current=False)
    app.conf.update(celery_options(read_settings(broker_url=broker_url)))
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, "socket_timeout": 0.2}
    line = Line(app)
    yield line
    line.close()


def refused(line: Line) -> list[RedisTimeoutError]:
    """What a push raises, in a thread of its own, within seconds."""
    raised: list[RedisTimeoutError] = []

    def push() -> None:
        try:
            line.push(MESSAGE)
        except RedisTimeoutError as error:
            raised.append(error)

    thread = threading.Thread(target=push, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for the others"
    return raised


def test_behind_pushes_that_get_no_answer_nobody_queues_up(line: Line) -> None:
    line.push(MESSAGE)
    turns = line._open().turns
    for _ in range(AT_ONCE):
        turns.acquire()
    assert refused(line)
    turns.release()
    assert not refused(line), "as soon as one of them has ended"


def test_behind_one_who_finds_no_broker_nobody_queues_up(line: Line) -> None:
    with line._lock:
        assert refused(line)
    assert not refused(line)
