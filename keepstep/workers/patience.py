"""How long claims and commits try while the database can't be reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from keepstep.steps.errors import DatabaseUnavailable

CLAIM = 15.0
"""Seconds. Giving up a claim costs a delay: the sweep rings again."""
COMMIT = 600.0
"""Seconds. A result that cost money isn't thrown away because PostgreSQL restarts, or fails over."""


def patient(seconds: float) -> Callable[..., Any]:
    """Call a function; try again while the database can't be reached, with a growing wait, for `seconds`."""

    def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except DatabaseUnavailable:  # the rest is for the rare case: it costs a tenth of a step
            return _retrying(seconds)(function, *args, **kwargs)

    return call


def _retrying(seconds: float) -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(DatabaseUnavailable),
        wait=wait_exponential(multiplier=0.05, max=1.0),
        stop=stop_after_delay(seconds),
        reraise=True,
    )
