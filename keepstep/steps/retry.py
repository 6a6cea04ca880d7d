"""How often, and after which waits, a step that raised is tried again. Built on tenacity's strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never

from tenacity import RetryCallState, Retrying, wait_exponential_jitter
from tenacity.stop import stop_base
from tenacity.wait import wait_base

from keepstep.steps.definition import caller, check_options
from keepstep.steps.errors import DefinitionError

_WAIT = wait_exponential_jitter(initial=1, max=60)
_RETRYING = Retrying()
_LONGEST = 1e9
"""Seconds, some thirty years. Tenacity's exponential waits grow beyond what a timestamp can hold."""


@dataclass(frozen=True, init=False)
class Retry:
    """A step's retry policy.

    attempts: tries in all, the first included; after the last the case is held (or failed, see `on_exhausted`).
    wait: a tenacity wait strategy, in seconds. stop: an optional tenacity stop strategy, whose clock starts when the
    case reached the step. The back-off is a row in PostgreSQL, so it may be days and holds no worker.
    """

    attempts: int
    wait: wait_base
    stop: stop_base | None

    def __init__(
        self, *, attempts: int = 5, wait: wait_base = _WAIT, stop: stop_base | None = None, **unknown: Never
    ) -> None:
        check_options("Retry()", unknown, type(self).__init__)
        at = caller("keepstep.steps")
        if not isinstance(attempts, int) or attempts < 1:
            raise DefinitionError(f"{at}: Retry(attempts={attempts!r}): at least one attempt is needed, the first")
        if not callable(wait) or not (stop is None or callable(stop)):
            raise DefinitionError(f"{at}: Retry(wait={wait!r}, stop={stop!r}): tenacity's strategies are needed")
        for name, value in (("attempts", attempts), ("wait", wait), ("stop", stop)):
            object.__setattr__(self, name, value)  # frozen

    def delay(self, failures: int, elapsed: float, error: BaseException | None = None) -> float | None:
        """Seconds until the next try, or None when there is none.

        failures: how often the step has raised by now, this time included. elapsed: seconds since the case reached
        the step.
        """
        if failures >= self.attempts:
            return None
        state = RetryCallState(_RETRYING, None, (), {})
        state.attempt_number = failures
        state.start_time, state.outcome_timestamp = 0.0, elapsed
        if error is not None:
            state.set_exception((type(error), error, None))
            state.outcome_timestamp = elapsed
        delay = min(max(0.0, float(self.wait(state))), _LONGEST)
        state.upcoming_sleep = delay
        return None if self.stop is not None and self.stop(state) else delay
