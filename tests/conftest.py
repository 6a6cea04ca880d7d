"""Fixtures: real servers, a database of its own for each test, real workers that may be killed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.testing.clock import Clock
from tests import flows
from tests.support.servers import TEMPLATE, SessionServers, Urls, copying
from tests.support.trace import Trace
from tests.support.worker import ROOT, Worker

_session = SessionServers()
_urls: list[Urls] = []


def _start_once() -> Urls:
    if not _urls:
        _urls.append(_session.start())
    return _urls[0]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist's controller owns the servers: they outlive each of its workers."""
    urls = _start_once()
    node.workerinput["keepstep_urls"] = (urls.postgres, urls.valkey)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of tests/crash is marked `crash`, so that `make crash` finds it together with what is `slow` elsewhere."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent / "crash"):
            item.add_marker("crash")


def pytest_unconfigure(config: pytest.Config) -> None:
    if _urls and not hasattr(config, "workerinput"):
        _session.stop()


@pytest.fixture(scope="session")
def urls(request: pytest.FixtureRequest) -> Urls:
    """Where the session's servers are."""
    given = getattr(request.config, "workerinput", {}).get("keepstep_urls")
    return Urls(postgres=given[0], valkey=given[1]) if given else _start_once()


@pytest.fixture(scope="session")
def admin(urls: Urls) -> Iterator[Database]:
    admin = Database(postgres_url(urls.postgres), pool_size=1)
    yield admin
    admin.dispose()


@pytest.fixture
def database_url(urls: Urls, admin: Database) -> Iterator[str]:
    """A fresh database with keepstep's tables."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    admin.run(sa.text(f"create database {name} template {TEMPLATE} {copying(admin)}"), {})
    yield urls.database(name)
    admin.run(sa.text(f"drop database if exists {name} with (force)"), {})


@pytest.fixture
def clock(database_url: str) -> Clock:
    """The clock of this test's database, which can be put forward. Ask for it before `db` and `client`."""
    return Clock(database_url)


@pytest.fixture
def broker_url(urls: Urls, worker_id: str) -> str:
    """An empty Valkey database of this xdist worker's own."""
    number = 1 + int(worker_id.removeprefix("gw")) if worker_id != "master" else 1
    url = urls.broker(number)
    with redis.Redis.from_url(url) as valkey:
        valkey.flushdb()
    return url


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    database = Database(postgres_url(database_url), pool_size=10)
    yield database
    database.dispose()


@pytest.fixture
def workflows() -> Sequence[Workflow]:
    """Those that `client` knows; a file with others names them."""
    return flows.ALL


@pytest.fixture
def client(database_url: str, broker_url: str, workflows: Sequence[Workflow]) -> Iterator[Client]:
    with Client(database_url, broker_url, workflows=workflows) as client:
        yield client


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """What the steps of `tests.flows` really did, written by the workers."""
    return Trace(tmp_path / "trace")


@pytest.fixture
def worker_env(database_url: str, broker_url: str, trace: Trace) -> dict[str, str]:
    return {
        "KEEPSTEP_DATABASE_URL": database_url,
        "KEEPSTEP_BROKER_URL": broker_url,
        "KEEPSTEP_WORKFLOWS": "tests.flows",
        "KEEPSTEP_TEST_TRACE": str(trace.path),
        "PYTHONPATH": str(ROOT),
    }


StartWorker = Callable[..., Worker]


@pytest.fixture
def start_worker(
    worker_env: dict[str, str], db: Database, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StartWorker]:
    """Start a worker and wait until it is ready; all are killed at the end, and shown if the test failed."""
    started: list[Worker] = []

    def start(*, env: dict[str, str] | None = None, wait: bool = True, **options: Any) -> Worker:
        worker = Worker({**worker_env, **(env or {})}, tmp_path / f"worker-{len(started)}.log", quick=True, **options)
        started.append(worker)
        return worker.ready(db) if wait else worker

    yield start
    for worker in started:
        worker.thaw()
        worker.kill()
        print(f"--- {worker.log.name}\n{worker.tail()}")
