"""The engine's failpoints from the side of a test: armed by files, reached by workers (see workers/failpoints.py)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

SETTLED = 0.005
"""Seconds after which whoever has come to a point has also read what is to happen there."""


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A process that stands at a point."""

    point: str
    case: UUID
    seq: int
    pid: int
    at: float
    file: Path


class Points:
    """A folder for KEEPSTEP_FAILPOINTS. Where "kill" is armed, whoever comes by dies; where "halt" is, it stands."""

    def __init__(self, folder: Path):
        self.folder = folder

    def arm(self, point: str, case: UUID, seq: int, action: str) -> None:
        """Arm a point of a case, for the next process that comes by."""
        file = self.folder / f"{point}@{case}@{seq}"
        if not file.exists():
            half = self.folder / f".{file.name}"
            half.write_text(action)
            half.rename(file)  # whoever comes by finds the whole text, or nothing

    def reached(self) -> list[Reached]:
        """Those who stand at a point, in the order in which they came; also those who died there."""
        found, settled = [], time.time() - SETTLED
        for entry in os.scandir(self.folder):
            if entry.name.count("@") == 3:
                point, case, seq, pid = entry.name.split("@")
                at, file = entry.stat().st_ctime, Path(entry.path)
                if at <= settled:
                    found.append(Reached(point=point, case=UUID(case), seq=int(seq), pid=int(pid), at=at, file=file))
        return sorted(found, key=lambda reached: reached.at)

    def let_go(self, reached: Reached, *, again: bool) -> None:
        """Let a halted process go on. again: the next one that comes by halts too."""
        if again:
            self.arm(reached.point, reached.case, reached.seq, "halt")
        reached.file.unlink(missing_ok=True)

    def kill(self, reached: Reached) -> None:
        """SIGKILL a halted process."""
        with suppress(ProcessLookupError):
            os.kill(reached.pid, signal.SIGKILL)
        reached.file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Nothing is armed any more, and whoever stands at a point goes on."""
        for entry in list(os.scandir(self.folder)):
            Path(entry.path).unlink(missing_ok=True)
