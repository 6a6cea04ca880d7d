"""Arm the engine's failpoints, see who has reached them, and let them go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from keepstep.workers.failpoints import POINTS


@dataclass(frozen=True, kw_only=True)
class Reached:
    """A process that stands at a point."""

    point: str
    case: UUID
    seq: int
    pid: int


class Failpoints:
    """A folder for KEEPSTEP_FAILPOINTS."""

    def __init__(self, folder: Path):
        self.folder = folder
        folder.mkdir(exist_ok=True)

    @property
    def env(self) -> dict[str, str]:
        return {"KEEPSTEP_FAILPOINTS": str(self.folder)}

    def arm(self, point: str, case: UUID, seq: int, action: str = "halt") -> None:
        assert point in POINTS, point
        (self.folder / f"{point}@{case}@{seq}").write_text(action)

    def armed(self) -> list[str]:
        """What nobody has reached."""
        return sorted(f.name for f in self.folder.iterdir() if f.name.count("@") == 2)

    def reached(self) -> list[Reached]:
        found = [f.name.split("@") for f in self.folder.iterdir() if f.name.count("@") == 3]
        return [Reached(point=p, case=UUID(case), seq=int(seq), pid=int(pid)) for p, case, seq, pid in found]

    def release(self) -> None:
        """Whoever stands at a point goes on, if it still lives."""
        for file in self.folder.iterdir():
            if file.name.count("@") == 3:
                file.unlink()
