"""The servers of a test session: one pair for all xdist workers, or those that the environment names."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import sqlalchemy as sa

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers

TEMPLATE = "keepstep_template"
MEMORY, PREFIX, ENOUGH = Path("/dev/shm"), "keepstep-tests-", 6 * 2**30
DATABASE_VARIABLE, BROKER_VARIABLE = "KEEPSTEP_TEST_DATABASE_URL", "KEEPSTEP_TEST_BROKER_URL"


@dataclass(frozen=True, kw_only=True)
class Urls:
    """postgres: of a database in which databases can be created. valkey: of database 0."""

    postgres: str
    valkey: str

    def database(self, name: str) -> str:
        return urlunsplit(urlsplit(self.postgres)._replace(path=f"/{name}"))

    def broker(self, number: int) -> str:
        return urlunsplit(urlsplit(self.valkey)._replace(path=f"/{number}"))


def in_memory() -> Path | None:
    """A directory for the session's servers in memory, where there is plenty; None elsewhere.

    Each test has a database of its own: hundreds of files that are made and removed again, which is most of what a
    short test costs on a disk. Nothing is lost by it that these tests look at; what restarts servers has its own, on
    disk. What killed sessions have left is removed.
    """
    for left in MEMORY.glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(left.name.removeprefix(PREFIX).partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)
    try:
        if min(psutil.disk_usage(str(MEMORY)).free, psutil.virtual_memory().available) < ENOUGH:
            return None
        made = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=MEMORY))
    except OSError:
        return None
    made.chmod(0o711)  # the servers' account passes through
    return made


class SessionServers:
    """Started once by whoever owns the session; ends with it."""

    def __init__(self) -> None:
        self._servers: Servers | None = None
        self._memory: Path | None = None

    def start(self) -> Urls:
        given = os.environ.get(DATABASE_VARIABLE), os.environ.get(BROKER_VARIABLE)
        if given[0] and given[1]:
            urls = Urls(postgres=given[0], valkey=given[1])
        else:
            self._memory = in_memory()
            settings = {"max_connections": "300", "max_wal_size": "256MB"}
            self._servers = Servers(self._memory, postgres_settings=settings)
            self._servers.start()
            urls = Urls(postgres=self._servers.postgres.url, valkey=self._servers.valkey.url)
        make_template(urls)
        return urls

    def stop(self) -> None:
        if self._servers is not None:
            self._servers.stop()
        if self._memory is not None:
            shutil.rmtree(self._memory, ignore_errors=True)


@cache
def copying(admin: Database) -> str:
    """How to copy the template: by its files, where the server can (from PostgreSQL 15 on), in half the time."""
    version = admin.all(sa.text("select current_setting('server_version_num')::int as n"))[0].n
    return "strategy file_copy" if version >= 150000 else ""


def make_template(urls: Urls) -> None:
    """A database with keepstep's tables, from which each test's own is copied."""
    admin = Database(postgres_url(urls.postgres), pool_size=1)
    admin.run(sa.text(f"drop database if exists {TEMPLATE} with (force)"), {})
    admin.run(sa.text(f"create database {TEMPLATE}"), {})
    template = Database(postgres_url(urls.database(TEMPLATE)), pool_size=1)
    schema.upgrade(template)
    template.dispose()
    admin.dispose()
