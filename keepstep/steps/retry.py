"""How often, and after which waits, a step that raised is tried again. Built on tenacity's strategies."""

from __future__ import annotations

from dataclasses import dataclass, field

from tenacity import RetryCallState, Retrying, wait_exponential_jitter
from tenacity.stop import stop_base
from tenacity.wait import wait_base

_RETRYING = Retrying()
_LONGEST = 1e9
"""Seconds, some thirty years. Tenacity's exponential waits grow beyond what a timestamp can hold."""


@dataclass(frozen=True, kw_only=True)
class Retry:
    """A step's retry policy.

    attempts: tries in all, the first included; after the last the case is held (or failed, see `on_exhausted`).
    wait: a tenacity wait strategy, in seconds. stop: an optional tenacity stop strategy, whose clock starts when the
    case reached the step. The back-off is a row in PostgreSQL, so it may be days and holds no worker.
    """

    attempts: int = 5
    wait: wait_base = field(default_factory=lambda: wait_exponential_jitter(initial=1, max=60))
    stop: stop_base | None = None

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"Retry(attempts={self.attempts}): at least one attempt is needed")
        if not callable(self.wait) or not (self.stop is None or callable(self.stop)):
            raise ValueError(f"Retry(wait={self.wait!r}, stop={self.stop!r}): tenacity's strategies are needed")

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
