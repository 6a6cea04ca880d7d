"""A step's timeout interrupts the step, and nothing else."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.exceptions import SoftTimeLimitExceeded

from keepstep.workers import interrupt
from keepstep.workers.call_step import Interrupted, call_step
from keepstep.workers.interrupt import _Gate, interruptible, uninterrupted


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


def test_a_timeout_before_the_step_interrupts_it_at_once() -> None:
    ran = False
    with uninterrupted():
        os.kill(os.getpid(), signal.SIGUSR1)
        with pytest.raises(SoftLimit), interruptible():
            ran = True
    assert not ran


def test_another_thread_does_not_let_the_timeout_through() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    with uninterrupted():
        for _ in range(100):
            os.kill(os.getpid(), signal.SIGUSR1)
    over.set()
    thread.join()


def test_in_a_thread_nothing_is_touched() -> None:
    def run() -> None:
        with uninterrupted(), interruptible():
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert getattr(signal.getsignal(signal.SIGUSR1), "__name__", "") == "handler"


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


def test_a_limit_in_the_midst_of_the_restoring_leaves_sigterm_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))

    def restoring(number: int, handler: Any) -> Any:
        done = signal.signal(number, handler)
        if not isinstance(handler, _Gate):
            os.kill(os.getpid(), signal.SIGUSR1)
        return done

    monkeypatch.setattr(interrupt, "_bare", SimpleNamespace(getsignal=signal.getsignal, signal=restoring))
    try:
        with suppress(SoftLimit), uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM], "what was held back comes"
        os.kill(os.getpid(), signal.SIGTERM)
        assert len(came) == 2, "and what comes later"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_limit_that_came_before_the_step_is_no_fault_of_the_step() -> None:
    """As when a commit before it in its batch, or its own claim, has taken all the time."""
    called: list[object] = []

    def too_late(number: int, frame: object) -> None:
        raise SoftTimeLimitExceeded

    signal.signal(signal.SIGUSR1, too_late)
    call = SimpleNamespace(workflow="w", thread_id="A", step="s", seq=0, attempt=1)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with uninterrupted() as stop:
            os.kill(os.getpid(), signal.SIGUSR1)
            with pytest.raises(Interrupted) as interrupted:
                call_step(lambda *_: called.append(1), None, call, 2.0)  # type: ignore[arg-type]
            assert (called, interrupted.value.begun, stop()) == ([], False, True)
    finally:
        signal.signal(signal.SIGTERM, before)
