"""Servers, proxy, workers and a client of the run's own; all of it is gone afterwards."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from benchmarks.chaos import outside, workflow
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.modes import MODES
from benchmarks.chaos.patience import Patience
from benchmarks.chaos.plan import Plan
from benchmarks.chaos.proxy import Proxy
from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers
from tests.support.servers import TEMPLATE, Urls, make_template
from tests.support.worker import ROOT

SETTLING = 2.0
"""Seconds before `verify` looks."""


class Stage:
    """What a run plays on. The workers reach PostgreSQL through the proxy, everybody else directly."""

    def __init__(self, plan: Plan, servers: Servers, folder: Path, *, workers: int, modules: str, mode: str):
        urls = Urls(postgres=servers.postgres.url, valkey=servers.valkey.url)
        make_template(urls)
        self.servers, self.patient = servers, Patience()
        self.proxy = Proxy(servers.postgres.port)
        url = urls.database(TEMPLATE)
        self.db = Database(postgres_url(url), application_name="chaos", ping=True)
        self.db.run(workflow.TABLE, {})
        self.client = Client(url, urls.valkey, workflows=[workflow.chaos, workflow.errands])
        effects = folder / "outside"
        effects.mkdir()
        os.environ[outside.FOLDER_VARIABLE] = str(effects)
        env = {
            "KEEPSTEP_DATABASE_URL": _through(url, self.proxy.port),
            "KEEPSTEP_BROKER_URL": urls.valkey,
            "KEEPSTEP_WORKFLOWS": modules,
            "KEEPSTEP_LEASE_SECONDS": str(plan.lease),
            "KEEPSTEP_BEAT_SECONDS": str(min(1.0, plan.lease / 4)),
            "KEEPSTEP_SETTLING_SECONDS": str(SETTLING),
            "KEEPSTEP_EVENTS": "false",
            workflow.SEED_VARIABLE: str(plan.seed),
            outside.FOLDER_VARIABLE: str(effects),
            "PYTHONPATH": str(ROOT),
        }
        self.fleet = Fleet([env | settings for settings in MODES[mode]], folder / "logs", workers=workers)

    def close(self) -> None:
        """Kill the workers, and let go of the rest."""
        self.fleet.close()
        self.client.close()
        self.db.dispose()
        self.proxy.close()


@contextmanager
def stage(plan: Plan, *, workers: int, modules: str, mode: str, keep: Path | None = None) -> Iterator[Stage]:
    """A stage on fresh servers. keep: a folder that stays, for the workers' logs and what the outside world saw."""
    with tempfile.TemporaryDirectory(prefix="keepstep-chaos-") as temporary, Servers() as servers:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        built = Stage(plan, servers, folder, workers=workers, modules=modules, mode=mode)
        try:
            yield built
        finally:
            built.close()


def _through(url: str, port: int) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.hostname}:{port}"))
