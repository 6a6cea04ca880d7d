"""pytest fixtures for tests of workflows. Nothing is imported or started before a test asks for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from keepstep.testing.backends import Backends
    from keepstep.testing.runner import Runner


@pytest.fixture(scope="session")
def keepstep_servers() -> Iterator[Backends]:
    """PostgreSQL and Valkey of this session: `postgres_url`, `broker_url`, and `database()` for a fresh database.

    Those of KEEPSTEP_TEST_DATABASE_URL and KEEPSTEP_TEST_BROKER_URL, else servers from wheels (the extra `dev`).
    """
    from keepstep.testing.backends import Backends

    with Backends() as backends:
        yield backends


@pytest.fixture
def keepstep_database_url(keepstep_servers: Backends) -> Iterator[str]:
    """A fresh database with keepstep's tables, for this test only."""
    with keepstep_servers.database() as url:
        yield url


@pytest.fixture
def keepstep_runner(keepstep_database_url: str) -> Iterator[Callable[..., Runner]]:
    """Makes runners on this test's database: `keepstep_runner([intake], replace={...})`.

    They are closed at the end; where their cases stand, and what steps have raised, is shown if the test fails.
    """
    from keepstep.testing.runner import Runner

    made: list[Runner] = []

    def make(workflows: Any, **options: Any) -> Runner:
        runner = Runner(keepstep_database_url, workflows, **options)
        made.append(runner)
        return runner

    yield make
    for runner in made:
        print(runner.report())
        runner.close()
