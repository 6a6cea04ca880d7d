"""The releases of keepstep, each kept as the wheel that was published: installed beside this tree, to run for real."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from tests.support.environment import environment

HOME = Path(__file__).parents[1] / "releases"
SUMS = HOME / "SHA256SUMS"


@dataclass(frozen=True)
class Release:
    """One that was published."""

    version: str
    wheel: Path

    def install(self, home: Path, folders: Sequence[Path] = ()) -> Path:
        """Into a virtual environment in `home`, which finds `folders` and what this one has installed; its Python."""
        python = environment(home, folders)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--ignore-installed"]
        command = [sys.executable, "-m", "pip", "--python", python, "install", *options, self.wheel]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return python


def releases() -> list[Release]:
    """All, the oldest first. None in an sdist, which has no wheels."""
    found = [Release(path.name.split("-")[1], path) for path in HOME.glob("*.whl")]
    return sorted(found, key=lambda release: Version(release.version))
