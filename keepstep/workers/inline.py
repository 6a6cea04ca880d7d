"""Whether a worker goes on with a case's next step itself: opt-in, for quick steps, within a time budget."""

from __future__ import annotations

import time
from collections.abc import Callable

from keepstep.checkpoint.claims import Claim
from keepstep.steps.decide import Decision
from keepstep.workers.engine import Engine
from keepstep.workers.transaction import Transaction

MOST_SLACK = 1.5
"""Seconds: for as long, at the most, steps of one timeout follow one another inline."""


class Inline:
    """The budget of one delivery. stop: whether no further step may begin here.

    Every step still has its own checkpoint, attempt, key and log line. limit: the seconds after which Celery interrupts
    this message's process; a step that could not have its whole timeout before gets a message of its own, as one on
    another queue does. Messages of workflows that go on inline have some room for that, see `slack`.
    """

    def __init__(self, engine: Engine | None, first: Claim | None, stop: Callable[[], bool], limit: float | None):
        self._engine, self._stop, self._until = engine, stop, 0.0
        if engine is not None and first is not None and (seconds := engine.inline_seconds(first.workflow)):
            now = time.monotonic()
            self._until = now + seconds
            self._limit = now + (first.timeout if limit is None else limit)

    def goes_on(self, claimed: Claim, decision: Decision, transaction: Transaction | None) -> bool:
        """Whether the commit of this decision should take the next step's lease with it."""
        target = decision.target
        if not self._until or decision.move != "advance" or target is None or transaction is not None:
            return False
        now = time.monotonic()
        same_queue = claimed.is_pinned or target.queue == claimed.queue
        return same_queue and now < self._until and now + target.timeout <= self._limit and not self._stop()

    def joins_on(self, claimed: Claim, decision: Decision) -> bool:
        """The same of a step that goes on in company, where the next one must be able to do so, too."""
        return (
            self._engine is not None
            and self.goes_on(claimed, decision, None)
            and decision.target is not None
            and self._engine.may_join(f"{claimed.workflow}.{decision.target.step}")
        )


ALONE = Inline(None, None, lambda: False, None)
"""Nobody goes on."""


def slack(seconds: float) -> float:
    """By how much longer than its step's timeout a message of a workflow that goes on inline may take, in seconds.

    Less, together with a batch's own, than the grace after which the sweep takes an overdue attempt away.
    """
    return min(seconds, MOST_SLACK)
