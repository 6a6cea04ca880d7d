"""Virtual environments beside this one: other versions of a package, or of keepstep itself, with their own workers."""

from __future__ import annotations

import site
import sys
import venv
from collections.abc import Sequence
from pathlib import Path


def environment(home: Path, folders: Sequence[Path]) -> Path:
    """Make one in `home`; its Python. It finds what is installed into it, then `folders`, then what this one has.

    keepstep itself isn't among the last: here it is installed as a link.
    """
    venv.EnvBuilder(with_pip=False, symlinks=True).create(home)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [*folders, *site.getsitepackages()]
    (home / "lib" / version / "site-packages" / "others.pth").write_text("".join(f"{path}\n" for path in found))
    return home / "bin" / "python"
