"""The end of a worker by SIGTERM: steps in flight get some time, then their cases go to another worker at once.

Celery's warm shutdown waits for them as long as they take, and whoever stops workers (systemd, Kubernetes) kills what
takes too long: that would look like a death, and be noticed only seconds later.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

KILL_AFTER = 5.0
"""Seconds that a pool process has for giving its case back, before it is killed."""

log = logging.getLogger("keepstep.node")


class Node(Protocol):
    """The node that ends."""

    def charge_nobody(self) -> None:
        """From now on the end of a pool process is no fault of its step."""

    def give_back(self) -> None:
        """Leave what it runs to others."""

    def stop(self) -> None:
        """Say goodbye."""


class Shutdown:
    """What happens when the time is over.

    seconds: that a step in flight has from SIGTERM on. pids: the pool's processes; None for pools of threads, which
    can't be interrupted: there the whole process ends.
    """

    def __init__(self, seconds: float, pids: Callable[[], Iterable[int]] | None, node: Node):
        self._seconds, self._pids, self._node = seconds, pids, node
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """The worker is told to end; a second time changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="keepstep-shutdown", daemon=True)
            self._thread.start()

    def over(self) -> None:
        """The pool has ended by itself."""
        self._over.set()

    def _run(self) -> None:
        if self._over.wait(self._seconds):
            return
        log.warning("steps still run %g s after SIGTERM; their cases go to other workers", self._seconds)
        if self._pids is None:
            self._end_process()
        else:
            self._end_pool(self._pids)

    def _end_pool(self, pids: Callable[[], Iterable[int]]) -> None:
        """Each process gives its own case back, as only it knows whether the step had begun."""
        self._node.charge_nobody()
        _signal(pids(), signal.SIGTERM)
        if not self._over.wait(KILL_AFTER):
            self._node.give_back()
            _signal(pids(), signal.SIGKILL)

    def _end_process(self) -> None:
        self._node.give_back()
        self._node.stop()
        log.warning("the worker ends with steps in its threads; what they return will not be taken")
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)


def _signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
