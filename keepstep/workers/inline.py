"""Whether a worker goes on with a case's next step itself: opt-in, for quick steps, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable

from keepstep.checkpoint.claims import Claim
from keepstep.steps.decide import Decision
from keepstep.workers.engine import Engine
from keepstep.workers.transaction import Transaction


class Inline:
    """The budget of one delivery. ends: whether this process is told to end.

    Every step still has its own checkpoint, attempt, key and log line. The process's time limit is that of the message,
    so a step with a longer timeout than the first one's gets a message of its own, as one on another queue does.
    """

    def __init__(self, engine: Engine, first: Claim | None, ends: Callable[[], bool]):
        self._ends = ends
        self._timeout, self._until = 0.0, 0.0
        if first is not None:
            seconds = engine.inline_seconds(first.workflow)
            self._timeout = first.timeout
            self._until = time.monotonic() + seconds if seconds else 0.0

    def goes_on(self, claimed: Claim, decision: Decision, transaction: Transaction | None) -> bool:
        """Whether the commit of this decision should take the next step's lease with it."""
        target = decision.target
        if not self._until or decision.move != "advance" or target is None or transaction is not None:
            return False
        same_queue = claimed.is_pinned or target.queue == claimed.queue
        return same_queue and target.timeout <= self._timeout and time.monotonic() < self._until and not self._ends()
