"""What a step may say besides returning its changes: go elsewhere, finish, fail, sleep. (Waits: see waiting.py.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

Update = Mapping[str, Any]
"""Changes of the state, by field name."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The base of all outcomes. update: the fields of the state that change."""

    update: Update = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Goto(Outcome):
    """Go on with the named step."""

    step: str


@dataclass(frozen=True, kw_only=True)
class Finish(Outcome):
    """The case is complete."""


@dataclass(frozen=True, kw_only=True)
class Fail(Outcome):
    """The case has failed, for good."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Sleep(Outcome):
    """Go on with the next step (or `then`) after `seconds`, or at the instant `until`."""

    seconds: float | None = None
    until: datetime | None = None
    then: str | None = None


StepResult = Outcome | BaseModel | Update | None
"""What a step may return: an outcome, the whole state, a dict of changes, or nothing."""


def goto(step: str, /, **update: Any) -> Goto:
    """Go on with the step of this name, forward or back."""
    return Goto(step=step, update=update)


def finish(**update: Any) -> Finish:
    """End the case as completed."""
    return Finish(update=update)


def fail(why: str) -> Fail:
    """End the case as failed. The state stays at the last checkpoint."""
    return Fail(why=why)


def sleep(duration: timedelta | float, *, then: str | None = None, update: Update | None = None) -> Sleep:
    """Hold nothing for a while, then go on with the next step.

    duration: a timedelta or seconds. The timer is a row in PostgreSQL; what was due while everything was down runs
    when it is up again.
    """
    return Sleep(seconds=seconds_of(duration), then=then, update=update or {})


def sleep_until(instant: datetime, *, then: str | None = None, update: Update | None = None) -> Sleep:
    """Hold nothing until an instant, then go on with the next step. instant: with its time zone."""
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise ValueError(f"sleep_until needs a datetime with a time zone, not {instant!r}: whose midnight would it be?")
    return Sleep(until=instant, then=then, update=update or {})


def seconds_of(duration: timedelta | float) -> float:
    """A duration in seconds; ValueError unless it is finite and not negative."""
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < 1e10:
        raise ValueError(f"a duration must be finite and not negative, not {duration!r}")
    return seconds
