"""What steps really did, as lines in a file that outlives a killed process."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Line:
    thread_id: str
    step: str
    key: str
    attempt: int
    pid: int
    at: float


class Trace:
    """One line for each time that a step's code ran."""

    def __init__(self, path: Path):
        self.path = path

    def lines(self, thread_id: str | None = None, step: str | None = None) -> list[Line]:
        if not self.path.exists():
            return []
        rows = [row.split("\t") for row in self.path.read_text().splitlines()]
        lines = [Line(r[0], r[1], r[2], int(r[3]), int(r[4]), float(r[5])) for r in rows]
        return [
            line
            for line in lines
            if (thread_id is None or line.thread_id == thread_id) and (step is None or line.step == step)
        ]

    def open_gate(self) -> None:
        """Let steps go on that stand at the gate."""
        self._gate().touch()

    def is_open(self) -> bool:
        return self._gate().exists()

    def _gate(self) -> Path:
        return self.path.with_suffix(".gate")


def stand_at_gate() -> None:
    """Keep this process until the test opens the gate."""
    while not Trace(path()).is_open():
        time.sleep(0.02)


def path() -> Path:
    """Where this process's steps write."""
    return Path(os.environ["KEEPSTEP_TEST_TRACE"])


def write(thread_id: str, step: str, key: str, attempt: int) -> None:
    """Append one line in one write, so that lines of several processes don't mix."""
    path = os.environ.get("KEEPSTEP_TEST_TRACE")
    if path is None:
        return
    line = f"{thread_id}\t{step}\t{key}\t{attempt}\t{os.getpid()}\t{time.time()}\n"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, line.encode())
    os.close(fd)
