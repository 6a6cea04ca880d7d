"""Servers, workers and a client for one measurement, in a folder of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers
from tests import flows
from tests.support.proxy import Wiretap, wiretap
from tests.support.servers import TEMPLATE, Urls, make_template
from tests.support.trace import Trace
from tests.support.worker import ROOT, Worker

CONNECTIONS = {"max_connections": "500"}


class Rig:
    """A client, and workers that are killed at the end. env: for both."""

    def __init__(
        self, servers: Servers, folder: Path, workflows: Sequence[Workflow], module: str, env: Mapping[str, str]
    ):
        urls = Urls(postgres=servers.postgres.url, valkey=servers.valkey.url)
        make_template(urls)
        self.servers, self._folder = servers, folder
        self.database_url = urls.database(TEMPLATE)
        with _variables(env):
            self.client = Client(self.database_url, urls.valkey, workflows=workflows)
        self.db = Database(postgres_url(self.database_url))
        self.sql = psycopg.connect(self.database_url, autocommit=True)
        self.trace = Trace(folder / "trace")
        self.workers: list[Worker] = []
        self._env = {
            "KEEPSTEP_DATABASE_URL": self.database_url,
            "KEEPSTEP_BROKER_URL": urls.valkey,
            "KEEPSTEP_WORKFLOWS": module,
            "KEEPSTEP_TEST_TRACE": str(self.trace.path),
            "PYTHONPATH": str(ROOT),
            **env,
        }

    def worker(self, *, wait: bool = True, env: dict[str, str] | None = None, **options: object) -> Worker:
        """Start a worker; wait until its node is registered."""
        log = self._folder / f"worker-{len(self.workers)}.log"
        worker = Worker({**self._env, **(env or {})}, log, **options)  # type: ignore[arg-type]
        self.workers.append(worker)
        return worker.ready(self.db) if wait else worker

    def tapped(self, tap: Wiretap) -> dict[str, str]:
        """What a worker must be told so that its statements go through the tap."""
        port = self.servers.postgres.port
        return {"KEEPSTEP_DATABASE_URL": self.database_url.replace(f":{port}/", f":{tap.port}/")}

    def number(self, statement: str, *params: object) -> float:
        """The one number that a query returns."""
        row = self.sql.execute(statement, params).fetchone()
        assert row is not None
        return float(row[0])

    def close(self) -> None:
        """Kill what runs."""
        for worker in self.workers:
            worker.thaw()
            worker.kill()
        self.sql.close()
        self.client.close()
        self.db.dispose()


@contextmanager
def rig(
    *,
    workflows: Sequence[Workflow] = flows.ALL,
    module: str = "tests.flows",
    env: Mapping[str, str] | None = None,
) -> Iterator[Rig]:
    """A rig on fresh servers; all of it is gone afterwards. module: where the workers find the workflows."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="keepstep-bench-"))
        servers = stack.enter_context(Servers(postgres_settings=CONNECTIONS))
        os.chmod(folder, 0o755)
        built = Rig(servers, Path(folder), workflows, module, env or {})
        stack.callback(built.close)
        yield built


@contextmanager
def tapping(built: Rig) -> Iterator[Wiretap]:
    """A tap on the wire to the rig's PostgreSQL."""
    with wiretap(built.servers.postgres.port) as tap:
        yield tap


@contextmanager
def _variables(env: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(env)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
