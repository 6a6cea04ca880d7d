"""What a worker's main process has taken from the broker and its pool has no room for yet, and what goes together.

A process of the pool that becomes free gets its share of the quick steps that have arrived meanwhile, as one batch;
nothing is waited for. The steps that aren't known to be quick go alone, in their turn. While quick steps arrive, more
messages are taken than the pool has processes; what the pool has no room for after a moment goes back to the queue, for
another worker to take.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from keepstep.workers.batch import TOGETHER
from keepstep.workers.company import submit
from keepstep.workers.pace import QUICK, Pace
from keepstep.workers.room import Room

COMPANY_SECONDS = 0.03
"""The most that the steps of one batch are expected to take together."""
PATIENCE = 0.05
"""Seconds for which messages wait here while no process of the pool becomes free; then they go back."""


class Gather:
    """The steps that wait in this main process.

    most: in one batch. consumer: Celery's, with its event loop, pool and semaphore. run: what a process of the pool
    calls with the (case, seq) pairs. may_join: whether steps of this name may run in company at all.
    """

    def __init__(self, consumer: Any, most: int, run: Callable[..., Any], may_join: Callable[[str], bool]):
        self._consumer, self._most, self._run, self._may_join = consumer, most, run, may_join
        self._slots, self._room = consumer.controller.semaphore, Room(consumer)
        self._waiting: deque[Any] = deque()
        self._is_asking = False  # for a free process
        self._is_looking = False  # whether all this moves, every now and then
        self._moved_at = 0.0
        self.pace = Pace()

    def add(self, request: Any) -> None:
        """A message has arrived."""
        self._waiting.append(request)
        if self.pace.expected(request.name) is not None:
            self._room.want(self._share(request) * self._slots.initial_value)
        self._ask()

    def close(self) -> None:
        """Another one takes over. What waits here still has its turn."""
        self._room.want(0)

    def _ask(self) -> None:
        """Ask for a process of the pool, a moment later: what comes with this message is to be here, too."""
        if not self._is_asking:
            self._is_asking = True
            self._consumer.hub.call_soon(self._slots.acquire, self._on_free_process)
        if not self._is_looking:
            self._is_looking, self._moved_at = True, time.monotonic()
            self._consumer.hub.call_later(PATIENCE, self._look)

    def _on_free_process(self) -> None:
        self._is_asking, self._moved_at = False, time.monotonic()
        group = [request for request in self._next() if not request.revoked()]
        if not group:
            self._slots.release()
        elif len(group) == 1:
            self._consumer.controller._process_task(group[0])
        else:
            self._submit(group)
        if self._waiting and not self._is_asking:
            self._is_asking = True
            self._slots.acquire(self._on_free_process)  # at once: this may be all that the event loop does for a while

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

    def _share(self, request: Any) -> int:
        """How many more messages a process has room for: a batch in hand, and one that waits; of slow steps, none."""
        seconds = self._seconds(request)
        batch = 1 if seconds is None else min(self._most, math.ceil(COMPANY_SECONDS / max(seconds, 1e-6)))
        return 0 if batch == 1 else 2 * batch - 1

    def _seconds(self, request: Any) -> float | None:
        """What a request is expected to take, if it is known to be quick and may be joined with others."""
        if request.alone or request.delivery_info["redelivered"] or not self._may_join(request.name):
            return None
        seconds = self.pace.expected(request.name)
        return seconds if seconds is not None and seconds <= QUICK else None

    def _submit(self, group: list[Any]) -> None:
        others = len(group) - 1
        self._room.hold(others)
        submit(
            self._consumer.pool,
            self._run,
            group,
            slack=TOGETHER,
            finished=lambda told: self._on_finished(group, told),
            ended=lambda: self._room.hold(-others),
        )

    def _on_finished(self, group: Sequence[Any], told: Sequence[Any]) -> None:
        for request, one in zip(group, told, strict=True):
            if one is None:
                request.run_alone()
                self._waiting.append(request)
                self._ask()
            else:
                request.on_success((0, one, one[0] or 0.0))

    def _look(self) -> None:
        """When nothing moves, let other workers have what waits here."""
        self._is_looking = False
        if not self._waiting:
            return
        if self._room.is_over():  # so are these messages: the connection that they came from is gone
            self._waiting.clear()
            return
        if self._slots.value > 0:  # somebody has wiped our question out
            self._is_asking = False
            self._ask()
        elif time.monotonic() - self._moved_at < PATIENCE:
            self._is_looking = True
            self._consumer.hub.call_later(PATIENCE, self._look)
        else:
            self._put_back()

    def _put_back(self) -> None:
        self._room.want(0)
        taken = reversed(self._waiting)  # the last one first: the first is the next to be taken again
        tags, self._waiting = [request.leave() for request in taken], deque()
        self._consumer.task_consumer.channel.qos.put_back(tags)
