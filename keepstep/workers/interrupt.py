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


class _Gate:
    """Stands in for a handler that raises. It lets the signal through while it is open, and keeps it otherwise."""

    def __init__(self, raising: Any):
        self.raising, self.came, self.open = raising, False, False

    def __call__(self, number: int, frame: Any) -> None:
        if not self.open:
            self.came = True
        elif callable(self.raising):
            self.raising(number, frame)
        else:  # the system's own way of taking it
            signal.signal(number, self.raising)
            signal.raise_signal(number)


_gates: dict[int, _Gate] = {}
"""Those that stand now, in the main thread."""


@contextmanager
def uninterrupted() -> Iterator[Callable[[], bool]]:
    """Hold both back. A soft limit that comes too late for the step is dropped; the end comes when this is over.

    Yields whether the end has come.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals are the main thread's
        return
    gates: dict[int, _Gate] = {number: _Gate(signal.getsignal(number)) for number in (SOFT_LIMIT, END)}
    for number, gate in gates.items():
        signal.signal(number, gate)
    _gates.update(gates)
    try:
        yield lambda: gates[END].came
    finally:
        _gates.clear()
        for number, gate in gates.items():
            signal.signal(number, gate.raising)
        if gates[END].came:
            signal.raise_signal(END)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let them through again, inside of `uninterrupted`; what came before the step is delivered at once."""
    if not _gates or threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        for number, gate in _gates.items():
            gate.open = True
            if gate.came:
                gate.came = False
                signal.raise_signal(number)
        yield
    finally:
        for gate in _gates.values():
            gate.open = False


def is_ending(error: BaseException) -> bool:
    """Whether the error is the end of this pool process by SIGTERM, and not a `sys.exit()` of the step's own."""
    return isinstance(error, SystemExit) and terminate_handler_fired()
