"""How many messages a worker takes beyond those that its pool has processes for: kombu's prefetch count."""

from __future__ import annotations

from typing import Any


class Room:
    """The room that one connection's messages have on top of Celery's own, which Celery changes, too.

    consumer: Celery's. Its `qos` is another one after each reconnection, and then this one is over.
    """

    def __init__(self, consumer: Any):
        self._consumer = consumer
        self._qos: Any = None
        self._wanted = self._held = self._added = 0

    def want(self, messages: int) -> None:
        """Take so many more, at least."""
        self._wanted = messages
        self._apply()

    def hold(self, messages: int) -> None:
        """So many more (or, negative, fewer) are in hand that share a process: nobody else's room is less for that."""
        self._held += messages
        self._apply()

    def is_over(self) -> bool:
        """Whether the connection has been replaced since."""
        return self._qos is not None and self._consumer.qos is not self._qos

    def _apply(self) -> None:
        qos = self._consumer.qos
        if qos is None or self.is_over():
            return
        self._qos = qos
        more, before = max(self._wanted, self._held) - self._added, qos.value
        if more > 0:
            qos.increment_eventually(more)  # there may be a most
        elif more < 0:
            qos.decrement_eventually(-more)
        self._added += qos.value - before
