"""Let a step's timeout interrupt the step, and nothing else.

Celery's soft time limit is a signal to the pool's process, and raises wherever that happens to be. Between the step's
return and the end of the commit it would throw away a result, so it is held back there.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

SOFT_LIMIT = {signal.SIGUSR1}
"""What billiard sends for a soft time limit, in prefork only; in other pools nobody sends it to a thread."""


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold the soft limit back; one that comes meanwhile, too late for the step, is dropped."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SOFT_LIMIT)
    try:
        yield
    finally:
        while SOFT_LIMIT & signal.sigpending():
            signal.sigwait(SOFT_LIMIT)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let the soft limit through again, inside of `uninterrupted`."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SOFT_LIMIT)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, SOFT_LIMIT)
