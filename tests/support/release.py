"""Wheels of keepstep: of this tree, or of a release that git has a tag of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
THIS_TREE = "this tree"


def previous() -> list[str]:
    """The tag of the latest release, if there is one that this clone knows."""
    told = subprocess.run(
        ["git", "tag", "--list", "v*", "--sort=-v:refname"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.split()[:1]


def wheel(tag: str, home: Path) -> Path:
    """Build the wheel of a tag, or of what git tracks here now, in the folder `home`."""
    source, out = home / "source", home / "dist"
    source.mkdir(parents=True)
    if tag == THIS_TREE:
        names = _run("git", "ls-files", cwd=ROOT)
        packed = _run("tar", "-c", "-T", "-", cwd=ROOT, stdin=names)
    else:
        packed = _run("git", "archive", tag, cwd=ROOT)
    _run("tar", "-x", cwd=source, stdin=packed)
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source), cwd=home)
    [made] = out.glob("*.whl")
    return made


def _run(*command: str, cwd: Path, stdin: bytes = b"") -> bytes:
    done = subprocess.run(command, cwd=cwd, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    return done.stdout
