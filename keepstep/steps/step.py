"""A step as it is declared, and as much of it as a case's head must know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from keepstep.steps.retry import Retry

StepFunction = Callable[..., Any]
Verify = Callable[..., Any]
InDoubt = Literal["retry", "hold"] | Verify
OnExhausted = Literal["hold", "fail"]


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where a case goes next: all that a head must know of its step, also on a node without the step's code.

    timeout, heartbeat_timeout: seconds. in_doubt: "retry", "hold" or "verify": what to do when nobody knows whether the
    call took effect.
    """

    step: str
    queue: str
    timeout: float
    in_doubt: str
    heartbeat_timeout: float | None = None


@dataclass(frozen=True, kw_only=True)
class Step:
    """One declared step.

    next: its declared edges, None when any step of the workflow may follow. verify: the function that tells whether a
    call in doubt took effect, if `in_doubt` is "verify". max_visits: how often a case may come to it, None for ever.
    """

    name: str
    function: StepFunction
    retry: Retry
    timeout: timedelta
    queue: str
    next: tuple[str, ...] | None
    aliases: tuple[str, ...]
    in_doubt: Literal["retry", "hold", "verify"]
    verify: Verify | None
    transactional: bool
    heartbeat_timeout: timedelta | None
    on_exhausted: OnExhausted
    safe_errors: tuple[type[BaseException], ...]
    permanent: tuple[type[BaseException], ...]
    max_visits: int | None
    at: str

    @property
    def target(self) -> Target:
        """The step as a head stores it."""
        silence = self.heartbeat_timeout
        return Target(
            step=self.name,
            queue=self.queue,
            timeout=self.timeout.total_seconds(),
            in_doubt=self.in_doubt,
            heartbeat_timeout=None if silence is None else silence.total_seconds(),
        )
