"""Wait for an flock, and say so when it takes a while."""

import fcntl
import time
from collections.abc import Callable

POLL = 0.02
TELL_AFTER = 0.3
"""Seconds. A server that has been stopped in order lets go of its data sooner."""


def taken(descriptor: int, patience: float, tell: Callable[[], None]) -> bool:
    """Take the lock for this open file; False if somebody else still holds it after `patience` seconds.

    tell: called once, if it isn't to be had soon.
    """
    began, told = time.monotonic(), False
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            waited = time.monotonic() - began
        if waited > patience:
            return False
        if waited > TELL_AFTER and not told:
            told = True
            tell()
        time.sleep(POLL)
