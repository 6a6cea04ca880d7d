"""Real worker processes, as operators start them, that tests may kill."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import psutil

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import nodes as sql
from tests.support import zygote
from tests.support.eventually import eventually

ROOT = Path(__file__).parents[2]


class Worker:
    """One `keepstep worker` and its process tree. quick: see `zygote`, where the start isn't what is looked at."""

    def __init__(
        self,
        env: Mapping[str, str],
        log: Path,
        *,
        pool: str = "prefork",
        concurrency: int = 2,
        queues: str = "",
        python: Path | str = sys.executable,
        cwd: Path = ROOT,
        quick: bool = False,
    ):
        arguments = ["--pool", pool, "-c", str(concurrency), "-l", "INFO", *(["-Q", queues] if queues else [])]
        start = zygote.fork if quick and python == sys.executable else partial(zygote.fresh, python=python)
        self.log = log
        with log.open("ab") as out:
            whole = {**os.environ, **env}
            self.process = start(["worker", *arguments], env=whole, cwd=cwd, out=out, err=out, session=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def ready(self, db: Database, timeout: float = 30.0) -> Worker:
        """Wait until its node has registered itself."""

        def registered() -> bool:
            assert self.process.poll() is None, f"the worker ended:\n{self.tail()}"
            return any(row.process.startswith(f"{self.pid}:") for row in db.all(sql.LIST))

        eventually(registered, timeout, "the worker's node is registered")
        return self

    def tree(self) -> list[psutil.Process]:
        try:
            main = psutil.Process(self.pid)
            return [main, *main.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def kill(self) -> None:
        """SIGKILL the whole tree, as a machine's end would."""
        self._signal(signal.SIGKILL)
        self.process.wait()

    def freeze(self) -> None:
        """SIGSTOP the whole tree: alive, sockets open, and silent."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self, timeout: float = 40.0) -> int:
        """SIGTERM, as a deploy does; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        for process in self.tree():
            try:
                process.send_signal(number)
            except psutil.NoSuchProcess:
                continue
