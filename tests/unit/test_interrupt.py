"""A step's timeout interrupts the step, and nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from keepstep.workers.interrupt import interruptible, uninterrupted


class SoftLimit(Exception):
    pass


@pytest.fixture(autouse=True)
def soft_limit() -> Iterator[None]:
    """What billiard installs in a pool's process: a handler that raises."""

    def handler(number: int, frame: object) -> None:
        raise SoftLimit

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


def test_a_timeout_after_the_step_is_held_back_and_dropped() -> None:
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGUSR1)
    assert not {signal.SIGUSR1} & signal.sigpending()


def test_a_timeout_in_the_step_interrupts_it() -> None:
    with uninterrupted():
        with pytest.raises(SoftLimit), interruptible():
            os.kill(os.getpid(), signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)


def test_afterwards_everything_is_as_before() -> None:
    with uninterrupted(), interruptible():
        pass
    with pytest.raises(SoftLimit):
        os.kill(os.getpid(), signal.SIGUSR1)
