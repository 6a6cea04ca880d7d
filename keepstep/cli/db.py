"""`keepstep db`: the database's tables."""

from __future__ import annotations

import click

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.cli.printing import json_option, print_json
from keepstep.cli.session import translated
from keepstep.config.settings import read_settings, without_password


@click.group()
def db() -> None:
    """Bring the database's tables up to date, or check them."""


@db.command()
@json_option
def upgrade(as_json: bool) -> None:
    """Run the migrations that are missing. Safe while workers of the previous release run, and to run twice."""
    database = _database()
    with translated(database):
        before, after = schema.upgrade(database)
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        click.echo(f"{_shown(database)} is up to date: revision {after}")
    else:
        click.echo(f"{_shown(database)} upgraded: {before or 'no tables'} -> {after}")


@db.command()
@json_option
def check(as_json: bool) -> None:
    """Say whether this keepstep can work on the database; exit code 6 if it needs an upgrade."""
    database = _database()
    with translated(database):
        schema.check(database)
    if as_json:
        print_json({"ok": True})
    else:
        click.echo(f"{_shown(database)} is up to date")


def _database() -> Database:
    return Database(read_settings().database_url, pool_size=1, application_name="keepstep db")


def _shown(database: Database) -> str:
    return without_password(database.url)
