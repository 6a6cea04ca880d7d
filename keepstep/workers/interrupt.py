"""Let a step's timeout interrupt the step, and nothing else.

Celery's soft time limit is a signal to the pool's process, and raises wherever that happens to be. Between the step's
return and the end of the commit it would throw away a result, so it is held back there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

SOFT_LIMIT = signal.SIGUSR1
"""What billiard sends for a soft time limit, in prefork only; in other pools nobody sends it."""


class _HeldBack:
    """Stands in for billiard's handler, which raises. A mask would not do: another thread may take the signal."""

    def __init__(self, raising: Any):
        self.raising, self.came = raising, False

    def __call__(self, *_: Any) -> None:
        self.came = True


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold the soft limit back; one that comes too late for the step is dropped."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    raising = signal.getsignal(SOFT_LIMIT)
    signal.signal(SOFT_LIMIT, _HeldBack(raising))
    try:
        yield
    finally:
        signal.signal(SOFT_LIMIT, raising)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the soft limit through again, inside of `uninterrupted`; one that came before the step raises at once."""
    held = signal.getsignal(SOFT_LIMIT)
    if not isinstance(held, _HeldBack) or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(SOFT_LIMIT, held.raising)
    try:
        if held.came and callable(held.raising):
            held.raising(SOFT_LIMIT, None)
        yield
    finally:
        signal.signal(SOFT_LIMIT, held)
