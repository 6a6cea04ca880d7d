"""Wait for something to become true, instead of sleeping and hoping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(predicate: Callable[[], T], timeout: float = 10.0, message: str = "", every: float = 0.02) -> T:
    """Return the first truthy value of `predicate()`; fail with `message` after `timeout` seconds."""
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {message or predicate}; last value: {value!r}")
        time.sleep(every)
