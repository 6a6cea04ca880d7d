"""What a node counts of itself, in all its processes: claims refused, messages sent again.

A process of the pool says it with a byte in a pipe, which never blocks: no lock that a killed process could keep, no
shared memory, and nothing on the way of a step that runs. The main process adds them up and tells PostgreSQL.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections import Counter

from sqlalchemy.exc import SQLAlchemyError

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.refusals import why_refused
from keepstep.checkpoint.ring import Delivery
from keepstep.steps.errors import DatabaseUnavailable

NAMES = ("ended", "stale", "running", "paused", "too_new", "elsewhere", "not_looked_at", "rung_again")
"""What can be counted; the place in this table is the byte. All but the last are reasons why a claim is refused."""

MOST_AT_ONCE = 4096
"""Bytes that a pipe takes in one piece."""
LOOKS_A_SECOND = 20
"""Refused claims that a process looks into; of the rest it only counts that there were any."""

log = logging.getLogger("keepstep.tallies")


def _close(*files: int) -> None:
    for file in files:
        os.close(file)


class Tallies:
    """Made before the pool is forked, so that all its processes have the pipe."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        weakref.finalize(self, _close, self._read, self._write)
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._counted: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._second, self._looks = 0, 0

    def count(self, name: str, times: int = 1) -> None:
        """Count it; what doesn't fit into the pipe is not counted."""
        try:
            while times > 0:
                some = min(times, MOST_AT_ONCE)
                os.write(self._write, bytes([NAMES.index(name)]) * some)
                times -= some
        except OSError:
            log.debug("the tallies' pipe is full; %s is not counted", name)

    def refused(self, db: Database, delivery: Delivery, known: str) -> None:
        """Count a claim that was refused, under the reason that the case gives now. known: as the claim takes it."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._looks = second, 0
        self._looks += 1
        reason = "not_looked_at"
        if self._looks <= LOOKS_A_SECOND:
            try:
                reason = why_refused(db, delivery, known)
            except (DatabaseUnavailable, SQLAlchemyError):
                log.debug("the reason of a refused claim can't be asked for")
        self.count(reason)

    def counted(self) -> dict[str, int]:
        """All that has been counted in this node since its start; for the main process."""
        with self._lock:
            while True:
                try:
                    some = os.read(self._read, 65536)
                except BlockingIOError:
                    break
                self._counted.update(NAMES[number] for number in some if number < len(NAMES))
            return dict(self._counted)
