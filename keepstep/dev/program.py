"""A program of the development stack: a worker, Flower. It ends with us, however we end (see watcher.py)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from keepstep.dev import watcher

GRACE = 5.0
"""Seconds that a program has between SIGTERM and SIGKILL. A step that needs longer is recovered by the next worker."""

Say = Callable[[str, str], None]
"""Takes a program's name and one line of what it printed."""


class Program:
    """One program and its processes. say: gets every line that it prints, from a thread."""

    def __init__(self, name: str, command: Sequence[str], *, env: Mapping[str, str], say: Say, grace: float = GRACE):
        self.name, self._command, self._env, self._say, self._grace = name, list(command), dict(env), say, grace
        self._watcher: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self.pid = 0

    def start(self) -> None:
        """Start it; returns when its process is there, not when it is ready."""
        report, told = os.pipe()
        self._watcher = subprocess.Popen(
            [sys.executable, "-P", watcher.__file__, str(os.getpid()), str(self._grace), str(told), *self._command],
            env={**self._env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(told,),
            start_new_session=True,  # a Ctrl-C for us is ours to hand on
        )
        os.close(told)
        with open(report) as reports:
            self.pid = int(reports.readline() or 0)
        self._reader = threading.Thread(target=self._read, args=(self._watcher,), name=f"{self.name} log", daemon=True)
        self._reader.start()

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return None if self._watcher is None else self._watcher.poll()

    def kill(self) -> None:
        """SIGKILL to all its processes at once, as a machine's end would; returns when none is left."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._wait()

    def ask_to_stop(self) -> None:
        """Begin to stop it."""
        if self._watcher is not None and self._watcher.poll() is None:
            self._watcher.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Stop it, in order if it does so within its grace; none of its processes is left."""
        self.ask_to_stop()
        self._wait()

    def _wait(self) -> None:
        if self._watcher is not None:
            self._watcher.wait()
        if self._reader is not None:
            self._reader.join(timeout=2)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None  # opened with PIPE
        with process.stdout as lines:
            for line in lines:
                with suppress(OSError):  # our own terminal is gone; the program must not stall on a full pipe
                    self._say(self.name, line.rstrip("\n"))


def keepstep(*args: str) -> list[str]:
    """The command that runs `keepstep ARGS` with this very Python."""
    return [sys.executable, "-P", "-m", "keepstep.cli.main", *args]
