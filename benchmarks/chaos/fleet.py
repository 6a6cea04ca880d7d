"""The run's workers: real processes, each in a slot in which another one takes its place when it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from random import Random

import psutil

from keepstep.checkpoint.database import Database
from tests.support.worker import Worker

PATIENCE = 40.0
"""Seconds that a worker has to end in order."""
CELERYS_OWN = "Could not start worker processes"
"""With these words Celery ends a worker one of whose children is killed before all of it is ready."""
SETTLED = 5.0
"""Seconds after which nothing is under way any more in a worker that was frozen: longer than any call."""


class Slot:
    """A place for one worker at a time. All that strikes it comes from one thread.

    ended: what workers logged last that ended without having been told to. given_up: how many others Celery itself
    ended, because a child was killed before they were ready.
    """

    def __init__(self, name: str, env: Mapping[str, str], folder: Path, *, pool: str, concurrency: int):
        self.name, self._env, self._folder = name, env, folder
        self._pool, self._concurrency = pool, concurrency
        self._worker: Worker | None = None
        self._started = 0
        self.ended: list[str] = []
        self.given_up = 0
        self.awake_since: dict[int, float] = {}  # pid of a main process that was frozen -> when; infinite while it is

    def start(self) -> None:
        """Start a worker; it waits by itself for whatever isn't there."""
        self._started += 1
        log = self._folder / f"{self.name.replace(' ', '-')}.{self._started}.log"
        self._worker = Worker(self._env, log, pool=self._pool, concurrency=self._concurrency)

    def ready(self, db: Database) -> None:
        """Wait until the worker is registered as a node."""
        self._running.ready(db, timeout=60)

    def look(self) -> None:
        """Note a worker that has ended by itself, and start another one, as a supervisor does."""
        code = self._running.process.poll()
        if code is None:
            return
        if CELERYS_OWN in self._running.log.read_text(errors="replace"):
            self.given_up += 1
        else:
            self.ended.append(f"{self.name} ended with {code}:\n{self._running.tail(20)}")
        self.start()

    def kill_child(self, chance: Random) -> bool:
        """SIGKILL one process of the pool; of threads there is only the heartbeat's. False: there is none."""
        children = self._running.tree()[1:]
        with suppress(psutil.NoSuchProcess, IndexError):
            chance.choice(children).kill()
            return True
        return False

    def kill(self) -> None:
        """SIGKILL all of it, as a machine's end would."""
        worker = self._running
        worker.kill()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, signal.SIGKILL)  # what was forked meanwhile

    def freeze(self, seconds: float, over: threading.Event) -> None:
        """SIGSTOP all of it, and SIGCONT after that long, or when it is over."""
        worker = self._running
        self.awake_since[worker.pid] = float("inf")
        worker.freeze()
        over.wait(seconds)
        worker.thaw()
        self.awake_since[worker.pid] = time.monotonic()

    def deploy(self) -> None:
        """SIGTERM, and another one when it has ended in order."""
        worker = self._running
        try:
            worker.stop(PATIENCE)
        except subprocess.TimeoutExpired:
            self.ended.append(f"{self.name} did not end within {PATIENCE:g} s of SIGTERM:\n{worker.tail(20)}")
            self.kill()
        self.start()

    def close(self) -> None:
        """No process of it is left."""
        if self._worker is not None:
            self._worker.thaw()
            self.kill()

    @property
    def _running(self) -> Worker:
        assert self._worker is not None, f"{self.name} was never started"
        return self._worker


class Fleet:
    """All slots: so many prefork workers, of which the first one seems to be on another host, and one with threads.

    envs: of the first, the second and so on, and over again.
    """

    def __init__(self, envs: Sequence[Mapping[str, str]], folder: Path, *, workers: int):
        folder.mkdir()
        each = cycle(envs)
        elsewhere = {**next(each), "KEEPSTEP_HOST_ID": "elsewhere"}
        self.slots = [
            Slot(f"worker {n}", next(each) if n > 1 else elsewhere, folder, pool="prefork", concurrency=4)
            for n in range(1, workers + 1)
        ]
        self.slots.append(Slot(f"worker {workers + 1}", next(each), folder, pool="threads", concurrency=8))

    def start(self, db: Database) -> None:
        """Start them all, and wait until they are registered."""
        for slot in self.slots:
            slot.start()
        for slot in self.slots:
            slot.ready(db)

    def is_quiet(self, pid: int | None) -> bool:
        """Whether nothing that this worker (None: any worker) had begun can still be under way."""
        settled = time.monotonic() - SETTLED
        frozen = {p: since for slot in self.slots for p, since in list(slot.awake_since.items())}
        if pid is None:
            return all(since < settled for since in frozen.values())
        return frozen.get(pid, float("-inf")) < settled or not psutil.pid_exists(pid)

    @property
    def ended(self) -> list[str]:
        """What workers logged last that ended by themselves."""
        return [text for slot in self.slots for text in slot.ended]

    @property
    def given_up(self) -> int:
        """How many were ended by Celery because a child was killed before they were ready."""
        return sum(slot.given_up for slot in self.slots)

    def close(self) -> None:
        """No worker is left."""
        for slot in self.slots:
            slot.close()
