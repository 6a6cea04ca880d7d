"""Virtual environments beside this one: other versions of a package, or of keepstep itself, with their own workers."""

from __future__ import annotations

import site
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path


def environment(home: Path, folders: Sequence[Path]) -> Path:
    """Make one in `home`; its Python. It finds what this one has installed, and `folders` before that.

    keepstep itself isn't among what it finds unless a folder has it: here it is installed as a link.
    """
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [*folders, *site.getsitepackages()]
    (home / "lib" / version / "site-packages" / "others.pth").write_text("".join(f"{path}\n" for path in found))
    return home / "bin" / "python"


def installed(wheel: Path, folder: Path) -> Path:
    """A wheel unpacked into a folder, without what it depends on; the folder."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", folder, wheel]
    subprocess.run(command, check=True, capture_output=True)
    return folder
