"""The PostgreSQL and the broker of a test session: from wheels, or those that the environment names.

Each starts when it is first asked for, and ends with the session. With pytest-xdist each worker has its own pair, or,
of servers that are named, databases of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import sqlalchemy as sa

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import of_tests
from keepstep.testing.prepared import single

if TYPE_CHECKING:
    from keepstep.dev.servers import Servers

DATABASE_VARIABLE, BROKER_VARIABLE = "KEEPSTEP_TEST_DATABASE_URL", "KEEPSTEP_TEST_BROKER_URL"

_UNFLUSHED = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Of a server that dies with the test: what is killed is a process, never the machine."""


class Backends:
    """Both servers. A context manager, whose end stops what it has started and drops what it has made.

    database_url, broker_url: servers that exist; by default those of KEEPSTEP_TEST_DATABASE_URL and
    KEEPSTEP_TEST_BROKER_URL, else servers of its own, which need the extra `dev`.
    """

    def __init__(self, database_url: str | None = None, broker_url: str | None = None):
        self._given = {
            "postgres": database_url or of_tests(DATABASE_VARIABLE),
            "valkey": broker_url or of_tests(BROKER_VARIABLE),
        }
        self._stack = ExitStack()
        self._servers: Servers | None = None
        self._urls: dict[str, str] = {}
        self._template: str | None = None

    def __enter__(self) -> Backends:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._urls.clear()
        self._template = self._servers = None

    @property
    def postgres_url(self) -> str:
        """A database in which others can be created."""
        return self._url("postgres")

    @property
    def broker_url(self) -> str:
        """The broker's database for this process."""
        url = self._url("valkey")
        worker = of_tests("PYTEST_XDIST_WORKER")
        if self._given["valkey"] is None or not worker:
            return url
        return urlunsplit(urlsplit(url)._replace(path=f"/{1 + int(worker.removeprefix('gw'))}"))

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of a fresh database with keepstep's tables, which is dropped afterwards."""
        name = f"keepstep_test_{uuid4().hex[:12]}"
        with single(self.postgres_url) as admin:
            admin.run(sa.text(f"create database {name} template {self._made_template(admin)} {_copying(admin)}"), {})
        try:
            yield self._database_url(name)
        finally:
            self._drop(name)

    def _made_template(self, admin: Database) -> str:
        if self._template is None:
            name = f"keepstep_template_{uuid4().hex[:12]}"
            admin.run(sa.text(f"create database {name}"), {})
            self._stack.callback(self._drop, name)
            with single(self._database_url(name)) as template:
                schema.upgrade(template)
            self._template = name
        return self._template

    def _drop(self, name: str) -> None:
        with single(self.postgres_url) as admin:
            admin.run(sa.text(f"drop database if exists {name} with (force)"), {})

    def _database_url(self, name: str) -> str:
        return urlunsplit(urlsplit(self.postgres_url)._replace(path=f"/{name}"))

    def _url(self, kind: str) -> str:
        if kind not in self._urls:
            self._urls[kind] = self._given[kind] or self._started(kind)
        return self._urls[kind]

    def _started(self, kind: str) -> str:
        """Start a server from its wheel."""
        from keepstep.dev.servers import Servers

        if self._servers is None:
            self._servers = Servers(postgres_settings=_UNFLUSHED, valkey_settings={"appendonly": "no"})
            self._stack.callback(self._servers.stop)
        server = self._servers.postgres if kind == "postgres" else self._servers.valkey
        server.start()
        return server.url


def _copying(admin: Database) -> str:
    """How to copy a template: by its files, where the server can (from PostgreSQL 15 on), in half the time."""
    version = admin.all(sa.text("select current_setting('server_version_num')::int as number"))[0].number
    return "strategy file_copy" if version >= 150000 else ""
