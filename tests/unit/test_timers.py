"""What a main process's timers keep of steps that are over: nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kombu.asynchronous import Hub
from kombu.asynchronous.timer import Timer

from keepstep.workers.node import node_step
from keepstep.workers.timers import forget_cancelled


def test_cancelled_timers_are_forgotten_and_the_others_go_off_in_order() -> None:
    timer, rang = Timer(), list[int]()
    entries = {n: timer.call_after(n / 1e6, rang.append, (n,)) for n in range(1, 1001)}
    for n, entry in entries.items():
        if n % 10:
            entry.cancel()
    forget_cancelled(timer)
    assert len(timer.queue) == 100
    assert [entry.args[0] for *_, entry in timer.queue] == list(range(10, 1001, 10))


def test_one_that_is_being_waited_for_is_not_lost() -> None:
    """The event loop is in the middle of an iteration while it calls a timer's function."""
    timer, rang = Timer(), list[str]()
    timer.call_after(0.0, forget_cancelled, (timer,))
    timer.call_after(0.0, rang.append, ("a",)).cancel()
    timer.call_after(1e-6, rang.append, ("b",))
    waits = iter(timer)
    while not rang:
        _, entry = next(waits)
        if entry is not None:
            entry()
    assert rang == ["b"]


def test_the_worker_s_own_timers_are_there_once_however_often_its_event_loop_begins() -> None:
    """Celery before 5.7 clears all of them when it loses the broker, and begins again."""
    hub, pool = Hub(), SimpleNamespace(maintain_pool=lambda: None)
    worker: Any = SimpleNamespace(pool=SimpleNamespace(_pool=pool))
    step = object.__new__(node_step(SimpleNamespace()))  # type: ignore[arg-type]
    step.timers = []
    for clear in (False, True, False):
        if clear:
            hub.timer.clear()
        step.register_with_event_loop(worker, hub)
    forget_cancelled(hub.timer)
    assert len(hub.timer.queue) == 2
    hub.close()
