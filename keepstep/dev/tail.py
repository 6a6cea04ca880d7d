"""Follow the log files of the development servers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from keepstep.dev.program import Say

EVERY = 0.3
"""Seconds between two looks."""


class Tail:
    """A thread that says what is added to some files from now on."""

    def __init__(self, files: Mapping[str, Path], say: Say):
        self._files, self._say, self._over = dict(files), say, threading.Event()
        self._at = {name: path.stat().st_size for name, path in self._files.items() if path.exists()}
        self._thread = threading.Thread(target=self._follow, name="server logs", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Say what is still there, and end."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _follow(self) -> None:
        while not self._over.wait(EVERY):
            self._look()
        self._look()

    def _look(self) -> None:
        for name, path in self._files.items():
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._at.get(name, 0))
                whole, newline, _ = file.read().rpartition(b"\n")
            self._at[name] = self._at.get(name, 0) + len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                self._say(name, line)
