"""Let signals interrupt a step's own code, and nothing else.

In a pool's process Celery's soft time limit (SIGUSR1) and the end of the worker (SIGTERM) raise wherever the process
happens to be. Between the step's return and the end of the commit that would throw away a result, so both are held
back there. A mask would not do: another thread of the process may take the signal, and Python's handler runs in the
main thread all the same.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from billiard.common import terminate_handler_fired

SOFT_LIMIT, END = int(signal.SIGUSR1), int(signal.SIGTERM)

_bare: Any = sys.modules.get("_signal", signal)
"""What `signal` is made of. Its own two functions turn numbers and handlers into enums and back, which costs ten times
as much, four times a step."""


class _Gate:
    """Stands in for the two handlers, which raise. It lets signals through while it is open, else it keeps them."""

    def __init__(self) -> None:
        self.open, self.came, self.ever = False, set[int](), set[int]()
        self.raising: dict[int, Any] = {}

    def __call__(self, number: int, frame: Any) -> None:
        self.ever.add(number)
        raising = self.raising[number]
        if not self.open:
            self.came.add(number)
        elif callable(raising):
            raising(number, frame)
        else:  # the system's own way of taking it
            _bare.signal(number, raising)
            signal.raise_signal(number)


_gates: list[_Gate] = []
"""The one that stands now, in the main thread."""


@contextmanager
def uninterrupted() -> Iterator[Callable[[], bool]]:
    """Hold both back. A soft limit that comes too late for the step is dropped; the end comes when this is over.

    Yields whether to stop: no further step may begin, because the end has come, or the limit that was for all.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals are the main thread's
        return
    gate = _Gate()
    for number in (SOFT_LIMIT, END):
        gate.raising[number] = _bare.getsignal(number)
        _bare.signal(number, gate)
    _gates.append(gate)
    try:
        yield lambda: bool(gate.ever)
    finally:
        _gates.remove(gate)
        try:
            for number in (END, SOFT_LIMIT):  # in this order: a limit that comes meanwhile raises here
                _bare.signal(number, gate.raising[number])
        finally:
            if END in gate.came:
                signal.raise_signal(END)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let them through again, inside of `uninterrupted`; what came before the step is delivered at once."""
    if not _gates or threading.current_thread() is not threading.main_thread():
        yield
        return
    gate = _gates[-1]
    try:
        gate.open = True
        for number in (SOFT_LIMIT, END):
            if number in gate.came:
                gate.came.discard(number)
                signal.raise_signal(number)
        yield
    finally:
        gate.open = False  # one assignment: a signal in the midst of it is let through, or kept


def is_ending(error: BaseException) -> bool:
    """Whether the error is the end of this pool process by SIGTERM, and not a `sys.exit()` of the step's own."""
    return isinstance(error, SystemExit) and terminate_handler_fired()
