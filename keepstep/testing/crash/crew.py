"""The worker of a crash test: a real one, as operators start it, and started again when it has died."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Mapping

from keepstep.checkpoint import nodes
from keepstep.checkpoint.database import Database
from keepstep.config.settings import child_environment
from keepstep.dev.program import Program, keepstep

PATIENCE = 60.0
"""Seconds that a worker has to come up, imports of the user's modules included."""
EVERY = 0.02
LINES = 60
"""What the worker said last, for a message."""

_OPTIONS = (
    "--pool=prefork",
    "--loglevel=WARNING",
    "--hostname=crash@%h",
    # a message whose process was killed stays with the worker for a second, and must not keep others away meanwhile
    "--prefetch-multiplier=8",
    "--include=keepstep.testing.crash.quick_forks",
)


class WorkerEnded(AssertionError):
    """The worker ended by itself: its modules can't be imported, or it can't reach its servers."""


class Crew:
    """A worker and the processes of its pool. A context manager: starts it, waits until it is up, and ends it.

    env: variables for it, over the test's own. children: processes of its pool. said: its last lines.
    """

    def __init__(self, db: Database, env: Mapping[str, str], *, children: int):
        self.said: deque[str] = deque(maxlen=LINES)
        self._db = db
        # whatever the test can import, its worker can
        path = os.pathsep.join(dict.fromkeys(folder or os.getcwd() for folder in sys.path))
        self._worker = Program(
            "worker",
            keepstep("worker", *_OPTIONS, f"--concurrency={children}"),
            env={**child_environment(), "PYTHONPATH": path, **env},
            say=lambda _, line: self.said.append(line),
            grace=0.0,
        )

    def __enter__(self) -> Crew:
        try:
            self._worker.start()
            self._wait()
        except BaseException:
            self._worker.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()

    @property
    def pid(self) -> int:
        """The worker's main process."""
        return self._worker.pid

    def look_after(self) -> None:
        """Start it again if it was killed, as an orchestrator would. Raises WorkerEnded if it ended by itself."""
        code = self._worker.exit_code
        if code is None:
            return
        if code < 128:  # not by a signal
            raise WorkerEnded(f"the worker ended with exit code {code}. It said:\n{self.tail()}")
        self._worker.start()

    def tail(self) -> str:
        """What the worker said last."""
        return "\n".join(self.said)

    def _wait(self) -> None:
        end = time.monotonic() + PATIENCE
        while not nodes.everyone(self._db):
            self.look_after()
            if time.monotonic() > end:
                raise WorkerEnded(f"the worker did not come up within {PATIENCE:g} s. It said:\n{self.tail()}")
            time.sleep(EVERY)
