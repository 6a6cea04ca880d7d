"""The servers of a test session: one pair for all xdist workers, or those that the environment names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import sqlalchemy as sa

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.servers import Servers

TEMPLATE = "keepstep_template"
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


class SessionServers:
    """Started once by whoever owns the session; ends with it."""

    def __init__(self) -> None:
        self._servers: Servers | None = None

    def start(self) -> Urls:
        given = os.environ.get(DATABASE_VARIABLE), os.environ.get(BROKER_VARIABLE)
        if given[0] and given[1]:
            urls = Urls(postgres=given[0], valkey=given[1])
        else:
            self._servers = Servers(postgres_settings={"max_connections": "300"})
            self._servers.start()
            urls = Urls(postgres=self._servers.postgres.url, valkey=self._servers.valkey.url)
        make_template(urls)
        return urls

    def stop(self) -> None:
        if self._servers is not None:
            self._servers.stop()


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
