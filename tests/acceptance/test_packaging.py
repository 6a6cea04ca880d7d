"""What is published: a wheel with keepstep alone, and an sdist with everything."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKS = {"workers", "steps", "checkpoint", "config"}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of what git tracks, so that nothing else can slip in."""
    source, dist = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    subprocess.run(["tar", "-cf", source / "all.tar", "-T", "-"], cwd=ROOT, input=tracked, text=True, check=True)
    subprocess.run(["tar", "-xf", "all.tar"], cwd=source, check=True)
    (source / "all.tar").unlink()
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, source]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return dist


def test_the_wheel_holds_keepstep_alone(dist: Path) -> None:
    [wheel] = dist.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"keepstep"}
    assert "keepstep/py.typed" in names
    assert {"keepstep/monitor/templates/keepstep_case.html", "keepstep/monitor/static/keepstep.js"} <= set(names)
    assert "keepstep/checkpoint/migrations/versions/m0001_first_tables.py" in names


def test_the_sdist_holds_everything(dist: Path) -> None:
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in (
        "Makefile",
        "docker-compose.yml",
        "ARCHITECTURE.md",
        "tests/conftest.py",
        "benchmarks/rig.py",
        "docs/decisions.md",
    ):
        assert wanted in names
    assert [name for name in names if name.endswith(".whl")] == [], "former releases stay at home"


def test_the_four_rooms_are_reachable_from_the_top_as_links_only(dist: Path) -> None:
    for link in LINKS:
        assert (ROOT / link).is_symlink()
        assert (ROOT / link).resolve() == ROOT / "keepstep" / link
