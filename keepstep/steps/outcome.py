"""What a step may say besides returning its changes: go elsewhere, finish, fail, wait, sleep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
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
    """Go on with the next step (or `then`) after `seconds`."""

    seconds: float
    then: str | None = None


@dataclass(frozen=True, kw_only=True)
class WaitFor(Outcome):
    """Wait for a signal; its payload becomes the field `into`, and the case goes on with `then`."""

    name: str
    into: str | None
    then: str | None
    payload: type[BaseModel] | None
    prompt: Any
    timeout: float | None
    on_timeout: str | None


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
    return Sleep(seconds=_seconds(duration), then=then, update=update or {})


def wait_for(
    name: str,
    /,
    *,
    into: str | None = None,
    then: str | None = None,
    payload: type[BaseModel] | None = None,
    prompt: Any = None,
    timeout: timedelta | float | None = None,
    on_timeout: str | None = None,
    update: Update | None = None,
) -> WaitFor:
    """Wait for the signal `name`, holding no process, connection or message meanwhile.

    into: the field of the state that takes the payload. then: the step to go on with (default: the next one).
    payload: the pydantic model that a payload must fit; it is checked when the signal is sent. prompt: JSON for the
    person who decides. timeout: a timedelta or seconds, default none. on_timeout: the step to go on with when time
    is up; without it the case fails then.
    """
    seconds = None if timeout is None else _seconds(timeout)
    if on_timeout is not None and seconds is None:
        raise ValueError(f"wait_for({name!r}, on_timeout={on_timeout!r}) has no timeout that could lead there")
    return WaitFor(
        name=name,
        into=into,
        then=then,
        payload=payload,
        prompt=prompt,
        timeout=seconds,
        on_timeout=on_timeout,
        update=update or {},
    )


def _seconds(duration: timedelta | float) -> float:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else float(duration)
    if not 0 <= seconds < 1e10:
        raise ValueError(f"a duration must be finite and not negative, not {duration!r}")
    return seconds
