"""Watch the pool's processes: a death is known within milliseconds, not when the pool's timer comes round."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable
from contextlib import suppress

from keepstep.workers import process


class Children:
    """The pool's processes as they come and go. pids: the pool's own list of them."""

    def __init__(self, pids: Callable[[], Iterable[int]]):
        self._pids = pids
        self._watched: dict[int, tuple[str, int | None]] = {}  # pid -> ("pid:start", pidfd)

    def wait(self, seconds: float) -> list[str]:
        """Wait for a death, `seconds` at the most; the "pid:start" of those that died."""
        self._refresh()
        poll = select.poll()
        for _, fd in self._watched.values():
            if fd is not None:
                poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
        dead = [pid for pid, (identity, _) in self._watched.items() if not process.is_alive(identity)]
        return [self._forget(pid) for pid in dead]

    def close(self) -> None:
        """Watch nobody any more."""
        for pid in list(self._watched):
            self._forget(pid)

    def _refresh(self) -> None:
        for pid in set(self._pids()) - self._watched.keys():
            identity = process.identity(pid)
            if identity is not None:
                self._watched[pid] = (identity, _pidfd(pid))

    def _forget(self, pid: int) -> str:
        identity, fd = self._watched.pop(pid)
        if fd is not None:
            with suppress(OSError):
                os.close(fd)
        return identity


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process ends; None where the system has no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
