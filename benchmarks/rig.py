"""Servers, workers and a client for one measurement, in a folder of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers
from tests import flows
from tests.support.servers import TEMPLATE, Urls, make_template
from tests.support.trace import Trace
from tests.support.worker import ROOT, Worker


class Rig:
    """A client, and workers that are killed at the end."""

    def __init__(self, servers: Servers, folder: Path):
        urls = Urls(postgres=servers.postgres.url, valkey=servers.valkey.url)
        make_template(urls)
        self.servers, self._folder = servers, folder
        self.database_url = urls.database(TEMPLATE)
        self.client = Client(self.database_url, urls.valkey, workflows=flows.ALL)
        self.db = Database(postgres_url(self.database_url))
        self.trace = Trace(folder / "trace")
        self.workers: list[Worker] = []
        self._env = {
            "KEEPSTEP_DATABASE_URL": self.database_url,
            "KEEPSTEP_BROKER_URL": urls.valkey,
            "KEEPSTEP_WORKFLOWS": "tests.flows",
            "KEEPSTEP_TEST_TRACE": str(self.trace.path),
            "PYTHONPATH": str(ROOT),
        }

    def worker(self, *, wait: bool = True, env: dict[str, str] | None = None, **options: object) -> Worker:
        """Start a worker; wait until its node is registered."""
        log = self._folder / f"worker-{len(self.workers)}.log"
        worker = Worker({**self._env, **(env or {})}, log, **options)  # type: ignore[arg-type]
        self.workers.append(worker)
        return worker.ready(self.db) if wait else worker

    def close(self) -> None:
        """Kill what runs."""
        for worker in self.workers:
            worker.thaw()
            worker.kill()
        self.client.close()
        self.db.dispose()


@contextmanager
def rig() -> Iterator[Rig]:
    """A rig on fresh servers; all of it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="keepstep-bench-") as folder, Servers() as servers:
        os.chmod(folder, 0o755)
        built = Rig(servers, Path(folder))
        try:
            yield built
        finally:
            built.close()
