"""The database's schema: bring it up to date, and refuse to work on another one than this code knows."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.database_errors import sqlstate
from keepstep.checkpoint.migrations import versions
from keepstep.checkpoint.sql import schema as sql
from keepstep.steps.errors import DatabaseUnavailable, SchemaOutdated

if TYPE_CHECKING:
    from alembic.config import Config


def known_revisions() -> list[str]:
    """The revisions that this code knows, in order. A migration's file is named m<revision>_<what>.py."""
    return sorted(module.name[1:].partition("_")[0] for module in pkgutil.iter_modules(versions.__path__))


def upgrade(db: Database) -> tuple[str | None, str]:
    """Run the migrations that are missing, one process at a time; the revisions before and after.

    Raises SchemaOutdated, with nothing changed, if a newer keepstep has upgraded it, or if somebody holds the tables
    for so long that running workers would have to wait behind this.
    """
    try:
        done: tuple[str | None, str] = _BETWEEN_LOCKS(_upgrade, db)
    except DatabaseUnavailable as error:
        if not _is_locked(error):
            raise
        raise SchemaOutdated(
            "the tables were not upgraded, nothing was changed: somebody holds locks on them (pg_dump, a report, "
            "VACUUM; see pg_stat_activity, by xact_start). Run again when that is over: keepstep db upgrade"
        ) from error
    return done


def _is_locked(error: BaseException) -> bool:
    return isinstance(error.__cause__, DBAPIError) and sqlstate(error.__cause__) == "55P03"


_BETWEEN_LOCKS = Retrying(
    retry=retry_if_exception(_is_locked), wait=wait_random(0.5, 3.0), stop=stop_after_attempt(10), reraise=True
)
"""Tries, with time between them for those who have to wait while one of them waits for a lock."""


def _upgrade(db: Database) -> tuple[str | None, str]:
    from alembic import command  # takes a third of a second to import, which a worker's start needn't pay

    config = alembic_config()
    with db.transaction() as connection:
        connection.execute(sql.LOCK)
        connection.execute(sql.PATIENCE)
        connection.execute(sql.CREATE_SCHEMA)
        before = _revision(connection)
        if before is not None and before not in known_revisions():
            raise SchemaOutdated(f"the database is at revision {before}, newer than this keepstep. Upgrade keepstep.")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        after = _revision(connection)
    return before, after or ""


def check(db: Database) -> None:
    """Raise SchemaOutdated unless the database's revision is the one that this code was written for, or a newer one."""
    with db.connect() as connection:
        found = _revision(connection)
    known = known_revisions()
    if found is None:
        raise SchemaOutdated("the database has no keepstep tables. Run: keepstep db upgrade")
    if found in known[:-1]:
        raise SchemaOutdated(
            f"the database is at revision {found}, this keepstep needs {known[-1]}. Run: keepstep db upgrade"
        )
    # a newer release has upgraded it; its migrations keep the previous release running


def _revision(connection: sa.Connection) -> str | None:
    if connection.execute(sql.HAS_REVISION).scalar() is None:
        return None
    revision: str | None = connection.execute(sql.REVISION).scalar()
    return revision


def alembic_config() -> Config:
    """Alembic's configuration, without a file."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "keepstep.checkpoint:migrations")
    config.set_main_option("path_separator", "os")
    return config
