"""The database's schema: bring it up to date, and refuse to work on another one than this code knows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.tables import SCHEMA
from keepstep.steps.errors import SchemaOutdated

_LOCK = 0x6B656570  # one upgrade at a time


def upgrade(db: Database) -> tuple[str | None, str]:
    """Run the migrations that are missing, one process at a time; the revisions before and after."""
    config = _config()
    with db.engine.connect() as connection:
        connection = connection.execution_options(isolation_level="READ COMMITTED")
        with connection.begin():
            connection.execute(sa.text("select pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            connection.execute(sa.text(f"create schema if not exists {SCHEMA}"))
            before = _context(connection).get_current_revision()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            after = _context(connection).get_current_revision()
    return before, after or ""


def check(db: Database) -> None:
    """Raise SchemaOutdated unless the database's revision is the one that this code was written for, or a newer one."""
    with db.connect() as connection:
        found = _context(connection).get_current_revision()
    script = ScriptDirectory.from_config(_config())
    head = script.get_current_head()
    if found == head:
        return
    known = {revision.revision for revision in script.walk_revisions()}
    if found is None:
        raise SchemaOutdated("the database has no keepstep tables. Run: keepstep db upgrade")
    if found in known:
        raise SchemaOutdated(
            f"the database is at revision {found}, this keepstep needs {head}. Run: keepstep db upgrade"
        )
    # a newer release has upgraded it; its migrations keep the previous release running


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "keepstep.checkpoint:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _context(connection: sa.Connection) -> MigrationContext:
    return MigrationContext.configure(connection, opts={"version_table_schema": SCHEMA})
