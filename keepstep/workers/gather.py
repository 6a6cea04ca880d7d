"""What a worker's main process has taken from the broker and its pool has no room for yet, and what goes together.

A process of the pool that becomes free gets its share of the quick steps that have arrived meanwhile, as one batch;
nothing is waited for. The steps that aren't known to be quick go alone, in their turn. While quick steps arrive, more
messages are taken than the pool has processes; what the pool has no room for after a moment goes back to the queue, for
another worker to take.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import ref

from celery.worker import state

from keepstep.workers.pace import QUICK, Pace

COMPANY_SECONDS = 0.03
"""The most that the steps of one batch are expected to take together."""
PATIENCE = 0.05
"""Seconds for which messages wait here while no process of the pool becomes free; then they go back."""

log = logging.getLogger("keepstep.step")


class Gather:
    """The steps that wait in this main process.

    most: in one batch. consumer: Celery's, with its event loop, pool and semaphore. run: what a process of the pool
    calls with the (case, seq) pairs. may_join: whether steps of this name may run in company at all.
    """

    def __init__(self, consumer: Any, most: int, run: Callable[..., Any], may_join: Callable[[str], bool]):
        self._consumer, self._most, self._run, self._may_join = consumer, most, run, may_join
        self._slots = consumer.controller.semaphore
        self._waiting: deque[Any] = deque()
        self._asked, self._looking, self._moved, self._room = False, False, 0.0, 0
        self.pace = Pace()

    def add(self, request: Any) -> None:
        """A message has arrived."""
        self._waiting.append(request)
        if self.pace.expected(request.name) is not None:
            self._make_room(self._seconds(request) is not None)
        self._ask()

    def _ask(self) -> None:
        """Be called when a process of the pool is free, after all that has arrived with this message is here."""
        if not self._asked:
            self._asked = True
            self._consumer.hub.call_soon(self._slots.acquire, self._free)
        if not self._looking:
            self._looking, self._moved = True, time.monotonic()
            self._consumer.hub.call_later(PATIENCE, self._look)

    def _free(self) -> None:
        """A process of the pool is ours."""
        self._asked, self._moved = False, time.monotonic()
        group = [request for request in self._next() if not request.revoked()]
        if not group:
            self._slots.release()
        elif len(group) == 1:
            self._consumer.controller._process_task(group[0])
        else:
            self._submit(group)
        if self._waiting and not self._asked:
            self._asked = True
            self._slots.acquire(self._free)

    def _next(self) -> list[Any]:
        """The request whose turn it is, and its company."""
        if not self._waiting:
            return []
        first = self._waiting.popleft()
        seconds = self._seconds(first)
        if seconds is None:
            return [first]
        free = 1 + self._slots.value
        share = min(self._most, math.ceil((1 + len(self._waiting)) / free))
        group, passed = [first], deque[Any]()
        while self._waiting and len(group) < share and seconds < COMPANY_SECONDS:
            request = self._waiting.popleft()
            more = self._seconds(request) if request.time_limits == first.time_limits else None
            if more is None:
                passed.append(request)
            else:
                group.append(request)
                seconds += more
        self._waiting.extendleft(reversed(passed))
        return group

    def _seconds(self, request: Any) -> float | None:
        """What a request is expected to take, if it is known to be quick and may be joined with others."""
        if request.alone or request.delivery_info["redelivered"] or not self._may_join(request.name):
            return None
        seconds = self.pace.expected(request.name)
        return seconds if seconds is not None and seconds <= QUICK else None

    def _submit(self, group: list[Any]) -> None:
        hard, soft = group[0].time_limits

        def accepted(pid: int, at: float) -> None:
            for request in group:
                request.on_accepted(pid, at)

        def timed_out(is_soft: bool, seconds: float) -> None:
            if is_soft:  # the present one of them
                log.warning("a step of %s took longer than %s s", ", ".join(r.argsrepr for r in group), seconds)
                return
            for request in group:
                request.on_timeout(is_soft, seconds)

        def failed(*args: Any, **options: Any) -> None:
            for request in group:
                request.on_failure(*args, **options)

        result = self._consumer.pool.apply_async(
            self._run,
            args=([(request.args[0], request.args[1]) for request in group],),
            accept_callback=accepted,
            timeout_callback=timed_out,
            callback=lambda told: self._finished(group, told),
            error_callback=failed,
            soft_timeout=soft and soft + COMPANY_SECONDS,
            timeout=hard and hard + COMPANY_SECONDS,
            correlation_id=group[0].id,
        )
        for request in group:
            request._apply_result = None if result is None else ref(result)

    def _finished(self, group: list[Any], told: tuple[int, Any, float]) -> None:
        is_error, took, _ = told
        if is_error:
            for request in group:
                request.on_success(told)
            return
        for request, seconds in zip(group, took, strict=True):
            if seconds is None:
                request.alone = True
                self._waiting.append(request)
                self._ask()
                continue
            if seconds:
                self.pace.note(request.name, seconds)
            request.on_success((0, "None", seconds))

    def _look(self) -> None:
        """Nothing moves: let other workers have what waits here."""
        self._looking = False
        if not self._waiting:
            return
        if time.monotonic() - self._moved < PATIENCE:
            self._looking = True
            self._consumer.hub.call_later(PATIENCE, self._look)
            return
        self._make_room(False)
        while self._waiting:
            request = self._waiting.pop()  # the last one first: the first is the next to be taken again
            state.task_ready(request)
            request.put_back()

    def _make_room(self, wanted: bool) -> None:
        """Take as many messages as batches of quick steps need, or as many as the pool has processes."""
        room = (self._most - 1) * self._slots.initial_value if wanted else 0
        qos = self._consumer.qos
        if qos is None or room == self._room:
            return
        if room > self._room:
            qos.increment_eventually(room - self._room)
        else:
            qos.decrement_eventually(self._room - room)
        self._room = room
