"""A client for the length of one command, and the database's complaints in words."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.exc import DBAPIError

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database, is_connection_lost
from keepstep.checkpoint.sql import nodes as sql
from keepstep.config.settings import read_settings, without_password
from keepstep.steps.errors import DatabaseUnavailable, KeepstepError
from keepstep.workers.client import Client


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """A worker as people see it. silent: seconds since its last heartbeat."""

    host: str
    process: str
    queues: tuple[str, ...]
    workflows: tuple[str, ...]
    started_at: datetime
    silent: float


_MISSING = ("42P01", "42703", "3F000")  # undefined table, column, schema


class DatabaseRefused(KeepstepError):
    """PostgreSQL answered with an error."""


class Doorbell(logging.Handler):
    """Hears that a message could not be sent: the client itself only logs it, since the sweep rings later."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failed = False

    def emit(self, record: logging.LogRecord) -> None:  # noqa: ARG002
        """Note it."""
        self.failed = True


@contextmanager
def open_client(workflows: Sequence[str] | None = ()) -> Iterator[Client]:
    """A client on the settings; workflows: None loads those that the settings name, which only `start` needs."""
    with Client(settings=read_settings(), workflows=workflows) as client, translated(client.db):
        yield client


@contextmanager
def translated(db: Database) -> Iterator[None]:
    """Turn the database's own errors into refusals, an old schema into the command that mends it."""
    try:
        yield
    except DBAPIError as error:
        if getattr(error.orig, "pgcode", None) in _MISSING:
            from keepstep.checkpoint import schema  # Alembic takes half a second to import

            schema.check(db)
        reason = str(error.orig).strip().splitlines()[0]
        if is_connection_lost(error):
            raise DatabaseUnavailable(f"PostgreSQL at {without_password(db.url)} can't be reached: {reason}") from error
        raise DatabaseRefused(f"PostgreSQL refuses: {reason}") from error


@contextmanager
def listening() -> Iterator[Doorbell]:
    """Hear whether the doorbell rang."""
    bell, log = Doorbell(), logging.getLogger("keepstep.publish")
    log.addHandler(bell)
    log.propagate = False
    try:
        yield bell
    finally:
        log.removeHandler(bell)
        log.propagate = True


def broker() -> str:
    """The broker's URL as it may be shown."""
    return without_password(read_settings().broker_url)


def nodes(db: Database) -> list[NodeView]:
    """The workers that have beaten within a lease."""
    found = [
        NodeView(
            host=row.host,
            process=row.process,
            queues=tuple(codec.decode(row.queues)),
            workflows=tuple(codec.decode(row.workflows)),
            started_at=row.started_at,
            silent=row.silent,
        )
        for row in db.all(sql.LIST)
    ]
    return [node for node in found if node.silent < read_settings().lease_seconds]
