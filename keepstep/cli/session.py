"""A client for the length of one command, and the database's complaints in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import read_settings, without_password
from keepstep.steps.errors import KeepstepError
from keepstep.workers.client import Client

_MISSING = ("42P01", "42703", "3F000")  # undefined table, column, schema


class DatabaseRefused(KeepstepError):
    """PostgreSQL answered with an error."""


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
            schema.check(db)
        reason = str(error.orig).strip().splitlines()[0]
        raise DatabaseRefused(f"PostgreSQL refuses: {reason}") from error


def broker() -> str:
    """The broker's URL as it may be shown."""
    return without_password(read_settings().broker_url)
