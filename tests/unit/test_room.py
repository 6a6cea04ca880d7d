"""The prefetch count: it goes up for quick steps, and comes back to what it was, whatever happens meanwhile."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kombu.common import QoS

from keepstep.workers.room import Room


def connection(count: int = 4, most: int | None = None) -> QoS:
    return QoS(lambda prefetch_count: None, count, max_prefetch=most)


@pytest.fixture
def consumer() -> SimpleNamespace:
    return SimpleNamespace(qos=connection())


def test_what_is_wanted_comes_on_top_and_goes_again(consumer: SimpleNamespace) -> None:
    room = Room(consumer)
    for messages, count in ((60, 64), (60, 64), (0, 4), (30, 34), (0, 4)):
        room.want(messages)
        assert consumer.qos.value == count


def test_what_shares_a_process_never_takes_the_room_of_others(consumer: SimpleNamespace) -> None:
    room = Room(consumer)
    room.want(60)
    room.hold(15)
    room.hold(15)
    room.want(0)
    assert consumer.qos.value == 4 + 30, "two batches of sixteen are in hand, and two processes are free"
    room.hold(-15)
    room.hold(-15)
    assert consumer.qos.value == 4


def test_a_limit_is_no_reason_to_go_below_the_start() -> None:
    consumer = SimpleNamespace(qos=connection(4, most=20))
    room = Room(consumer)
    for _ in range(3):
        room.want(60)
        assert consumer.qos.value == 20
        room.want(0)
        assert consumer.qos.value == 4


def test_another_connection_is_left_alone(consumer: SimpleNamespace) -> None:
    room = Room(consumer)
    room.want(60)
    consumer.qos = connection()
    assert room.is_over()
    room.want(0)
    room.hold(5)
    assert consumer.qos.value == 4


def test_before_there_is_a_connection_nothing_happens() -> None:
    consumer = SimpleNamespace(qos=None)
    room = Room(consumer)
    room.want(60)
    assert not room.is_over()
    consumer.qos = connection()
    room.want(0)
    assert consumer.qos.value == 4
