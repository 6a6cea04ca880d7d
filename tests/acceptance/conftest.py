"""Fixtures of the acceptance tests: everything through the command line."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.dev.account import account_for, reachable_directory
from tests.acceptance.cli import Cli
from tests.support.servers import Urls


@pytest.fixture
def cli(worker_env: dict[str, str]) -> Cli:
    """`keepstep`, on this test's own database and broker."""
    return Cli(worker_env)


@pytest.fixture
def empty_database_url(urls: Urls, admin: Database) -> Iterator[str]:
    """A database without keepstep's tables."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    admin.run(sa.text(f"create database {name} template template0"), {})
    yield urls.database(name)
    admin.run(sa.text(f"drop database if exists {name} with (force)"), {})


@pytest.fixture
def server_home() -> Iterator[Path]:
    """A directory that PostgreSQL's account can reach, also when the tests run as root."""
    home = reachable_directory(account_for(), lasting=False)
    yield home
    shutil.rmtree(home, ignore_errors=True)
