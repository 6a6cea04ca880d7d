"""Let signals interrupt a step's own code, and nothing else.

In a pool's process Celery's soft time limit (SIGUSR1) and the end of the worker (SIGTERM) raise wherever the process
happens to be. Between the step's return and the end of the commit that would throw away a result, so both are held
back there. A mask would not do: another thread of the process may take the signal, and Python's handler runs in the
main thread all the same.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from billiard.common import terminate_handler_fired

SOFT_LIMIT, END = signal.SIGUSR1, signal.SIGTERM


class _HeldBack:
    """Stands in for a handler that raises."""

    def __init__(self, raising: Any):
        self.raising, self.came = raising, False

    def __call__(self, *_: Any) -> None:
        self.came = True


@contextmanager
def uninterrupted() -> Iterator[Callable[[], bool]]:
    """Hold both back. A soft limit that comes too late for the step is dropped; the end comes when this is over.

    Yields whether the end has come.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals are the main thread's
        return
    held = {number: _HeldBack(signal.getsignal(number)) for number in (SOFT_LIMIT, END)}
    for number, handler in held.items():
        signal.signal(number, handler)
    try:
        yield lambda: held[END].came
    finally:
        for number, handler in held.items():
            signal.signal(number, handler.raising)
        if held[END].came:
            signal.raise_signal(END)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let them through again, inside of `uninterrupted`; what came before the step is delivered at once."""
    held = {number: signal.getsignal(number) for number in (SOFT_LIMIT, END)}
    ours = {number: handler for number, handler in held.items() if isinstance(handler, _HeldBack)}
    if threading.current_thread() is not threading.main_thread() or not ours:
        yield
        return
    for number, handler in ours.items():
        signal.signal(number, handler.raising)
    try:
        for number, handler in ours.items():
            if handler.came:
                handler.came = False
                signal.raise_signal(number)
        yield
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)


def is_ending(error: BaseException) -> bool:
    """Whether the error is the end of this pool process by SIGTERM, and not a `sys.exit()` of the step's own."""
    return isinstance(error, SystemExit) and terminate_handler_fired()
