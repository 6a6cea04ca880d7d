"""What was released stays as it was: the wheels, their migrations, their golden checkpoints, their lines in CHANGELOG.

And whoever upgrades from a release has the tables that a new database has.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
from packaging.version import Version

from keepstep import __version__
from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from tests.golden import store
from tests.support.catalog import catalog
from tests.support.release import HOME, SUMS, Release, releases
from tests.support.worker import ROOT

VERSIONS = "keepstep/checkpoint/migrations/versions/"


def test_there_is_a_release_and_this_tree_is_newer() -> None:
    assert releases(), "this is an sdist: the wheels of former releases are in the repository only"
    assert all(Version(release.version) < Version(__version__) for release in releases())


def test_what_was_released_is_as_it_was_published() -> None:
    sums = dict(reversed(line.split("  ")) for line in SUMS.read_text().splitlines())
    golden = {home / f"{release.version}.json" for release in releases() for home in (store.HOME, store.BRANCHES)}
    kept = {str(path.relative_to(HOME.parent)): path for path in {release.wheel for release in releases()} | golden}
    assert sums == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in kept.items()}


@pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
def test_a_migration_is_not_changed_once_it_was_released(release: Release) -> None:
    with zipfile.ZipFile(release.wheel) as wheel:
        released = {name: wheel.read(name) for name in wheel.namelist() if re.match(rf"{VERSIONS}m\d+_", name)}
    assert released
    for name, text in released.items():
        assert (ROOT / name).read_bytes() == text, f"{name} was released: change the tables by another migration"


def test_every_release_has_its_date_in_the_changelog_and_what_is_not_released_comes_first() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    dated = [section for section in sections if re.fullmatch(r"\S+ \(\d{4}-\d\d-\d\d\)", section)]
    versions = [section.split()[0] for section in dated]
    assert sections == ["Unreleased", *dated] if Version(__version__).is_devrelease else sections == dated
    assert versions == sorted(versions, key=Version, reverse=True)
    assert {release.version for release in releases()} <= set(versions)


@pytest.mark.slow
@pytest.mark.parametrize("release", releases(), ids=lambda release: release.version)
def test_a_database_upgraded_from_a_release_has_the_tables_of_a_new_one(
    release: Release, empty: Database, db: Database, tmp_path: Path
) -> None:
    """db: a new one, of all migrations there are."""
    python = release.install(tmp_path / "environment")
    env = {**os.environ, "KEEPSTEP_DATABASE_URL": empty.url, "PYTHONPATH": ""}
    command = [python, "-m", "keepstep.cli.main", "db", "upgrade"]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(catalog(empty)) > 100
    schema.upgrade(empty)
    assert catalog(empty) == catalog(db)
