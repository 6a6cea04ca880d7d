"""The line to Redis: while the broker is silent, whoever wants to push waits for others no longer than for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from redis import Redis
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from keepstep.config.celery_options import celery_options
from keepstep.config.settings import read_settings
from keepstep.workers.line import AT_ONCE, Line

MESSAGE = {("line", 0): ["a message"]}


@pytest.fixture
def line(broker_url: str) -> Iterator[Line]:
    line = Line(app_of(broker_url, socket_timeout=0.2))
    yield line
    line.close()


def app_of(broker_url: str, **options: Any) -> Celery:
    app = Celery("line", set_as_current=False)
    app.conf.update(celery_options(read_settings(broker_url=broker_url)))
    app.conf.broker_transport_options = {**app.conf.broker_transport_options, **options}
    return app


def held_id(connection: Any) -> str:
    """By which the broker knows it."""
    connection.send_command("CLIENT", "ID")
    return str(connection.read_response())


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


def test_messages_of_several_lists_go_out_in_order_and_first_ones_to_the_end_where_they_are_taken(
    line: Line, broker_url: str
) -> None:
    line.push({("line", 0): ["a", "b"], ("line", 3): ["c"]})
    line.push({("line", 0): ["x", "y"]}, first=True)
    with Redis.from_url(broker_url, decode_responses=True) as redis:
        assert redis.lrange("line", 0, -1) == ["b", "a", "y", "x"], "taken from the right: x, y, a, b"
        assert redis.lrange("line\x06\x163", 0, -1) == ["c"]


def test_a_key_prefix_is_the_broker_s_own(broker_url: str) -> None:
    line = Line(app_of(broker_url, global_keyprefix="ours:"))
    line.push(MESSAGE)
    with Redis.from_url(broker_url) as redis:
        assert redis.llen("ours:line") == 1
    line.close()


def test_a_connection_that_the_broker_has_closed_is_replaced_and_nothing_is_sent_twice(
    line: Line, broker_url: str
) -> None:
    line.push(MESSAGE)
    with Redis.from_url(broker_url) as redis:
        [held] = line._open().idle
        redis.client_kill_filter(_id=held_id(held))
        line.push(MESSAGE)
        assert redis.llen("line") == 2


def test_after_a_refusal_the_next_push_goes_through(line: Line, broker_url: str) -> None:
    with Redis.from_url(broker_url) as redis:
        redis.set("line", "no list")
        with pytest.raises(ResponseError):
            line.push({("line", 0): ["a"], ("other", 0): ["b"]})
        redis.delete("line")
        line.push(MESSAGE)
        assert redis.llen("line") == 1


def test_a_connection_that_got_no_answer_goes_back_to_its_pool_which_knows_whom_to_ask(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentinel's pool asks who is the master; the connection by itself would go on with the one that is silent."""
    line.push(MESSAGE)
    [held] = line._open().idle
    pool = line._open().client.connection_pool

    def silent() -> None:
        raise RedisTimeoutError("no answer")

    monkeypatch.setattr(held, "read_response", silent)
    with pytest.raises(RedisTimeoutError):
        line.push(MESSAGE)
    assert (line._open().idle, held in pool._available_connections) == ([], True)
    monkeypatch.undo()
    line.push(MESSAGE)
    assert line._open().idle == [held], "opened again by the pool"
