"""A bell that rings in this very process: messages go into a queue in memory instead of a broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from celery import Celery

from keepstep.checkpoint.hooks import DueHook
from keepstep.checkpoint.ring import Ring
from keepstep.workers.publish import Bell


class QueueBell(Bell):
    """Keeps its messages, first in, first out, until somebody takes them."""

    def __init__(self) -> None:
        super().__init__(Celery("keepstep-runner", set_as_current=False))  # which never connects
        self._messages: deque[Ring | DueHook] = deque()

    def ring(self, rings: Iterable[Ring], *, first: bool = False) -> int:
        """Keep the messages; how many. first: to be taken before the others."""
        given = list(rings)
        if first:
            self._messages.extendleft(reversed(given))
        else:
            self._messages.extend(given)
        return len(given)

    def ring_hook(self, hook: DueHook, queue: str) -> bool:  # noqa: ARG002  (of the bell that this one stands for)
        """Keep the message for a hook."""
        self._messages.append(hook)
        return True

    def depth(self, queue: str) -> int:
        """How many messages for steps are kept for this queue."""
        return sum(isinstance(message, Ring) and message.queue == queue for message in list(self._messages))

    def take(self) -> Ring | DueHook | None:
        """The oldest message, which is kept no longer; None if there is none."""
        return self._messages.popleft() if self._messages else None
