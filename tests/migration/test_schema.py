"""The migrations make the tables that the code describes, once, and a worker on another schema says what to run."""

from __future__ import annotations

import re
import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from tenacity import stop_after_attempt

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import schema as sql
from keepstep.checkpoint.tables import SCHEMA, metadata
from keepstep.steps.errors import SchemaOutdated


def test_the_migrations_make_the_tables_that_the_code_describes(empty: Database) -> None:
    schema.upgrade(empty)
    options = {
        "include_schemas": True,
        "version_table_schema": SCHEMA,
        "include_name": lambda name, kind, _: kind != "schema" or name in (None, SCHEMA),
    }
    with empty.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


@pytest.mark.parametrize("name", ["heads_status", "cases_final_status", "checkpoints_status"])
def test_the_statuses_that_the_migrations_let_in_are_those_of_the_table_of_moves(empty: Database, name: str) -> None:
    """Alembic doesn't compare CHECKs; those in tables.py are made from MOVES, LIVE and TERMINAL."""
    schema.upgrade(empty)
    query = sa.text("select pg_get_constraintdef(oid) as check from pg_constraint where conname = :name")
    [found] = empty.all(query, {"name": name})
    [declared] = [c for table in metadata.tables.values() for c in table.constraints if c.name == name]
    assert isinstance(declared, sa.CheckConstraint)
    assert set(re.findall(r"'(\w+)'", found.check)) == set(re.findall(r"'(\w+)'", str(declared.sqltext)))


def test_an_upgrade_is_done_once_however_many_run_it(empty: Database) -> None:
    results: list[tuple[str | None, str]] = []
    threads = [threading.Thread(target=lambda: results.append(schema.upgrade(empty))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(before is None for before, _ in results) == [False, False, True]
    assert {after for _, after in results} == {schema.known_revisions()[-1]}
    schema.check(empty)


def test_a_database_without_tables_is_refused_with_the_command_to_run(empty: Database) -> None:
    with pytest.raises(SchemaOutdated, match="keepstep db upgrade"):
        schema.check(empty)


def test_the_revisions_are_those_of_the_migrations() -> None:
    from alembic.script import ScriptDirectory

    script = ScriptDirectory.from_config(schema.alembic_config())
    assert schema.known_revisions() == sorted(revision.revision for revision in script.walk_revisions())
    assert schema.known_revisions()[-1] == script.get_current_head()


def test_a_newer_schema_is_worked_with(empty: Database) -> None:
    schema.upgrade(empty)
    empty.run(sa.text("update keepstep.alembic_version set version_num = '9999'"), {})
    schema.check(empty)


def test_a_failed_upgrade_leaves_nothing_half_done(empty: Database) -> None:
    empty.run(sa.text("create schema keepstep"), {})
    empty.run(sa.text("create table keepstep.nodes (id int)"), {})
    with pytest.raises(sa.exc.ProgrammingError):
        schema.upgrade(empty)
    tables = empty.all(sa.text("select tablename from pg_tables where schemaname = 'keepstep'"))
    assert [row.tablename for row in tables] == ["nodes"]


def test_behind_a_long_reader_an_upgrade_gives_up_and_whoever_comes_after_it_waits_only_briefly(
    empty: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alembic import command

    config = schema.alembic_config()
    with empty.transaction() as connection:
        connection.execute(sql.CREATE_SCHEMA)
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    monkeypatch.setattr(schema, "_BETWEEN_LOCKS", schema._BETWEEN_LOCKS.copy(stop=stop_after_attempt(2)))
    count = sa.text("select count(*) from keepstep.checkpoints")
    refused: list[SchemaOutdated] = []

    def upgrade() -> None:
        try:
            schema.upgrade(empty)
        except SchemaOutdated as error:
            refused.append(error)

    with empty.transaction() as reader:
        reader.execute(count)
        thread = threading.Thread(target=upgrade)
        thread.start()
        while thread.is_alive():  # a lock that it waits for has a timeout of two seconds
            with empty.transaction() as other:
                other.execute(sa.text("set local statement_timeout = '5s'"))
                other.execute(count)
            thread.join(0.1)
    assert "nothing was changed" in str(refused[0])
    assert schema.upgrade(empty) == ("0001", schema.known_revisions()[-1])


def test_the_downgrade_leaves_nothing(empty: Database) -> None:
    from alembic import command

    schema.upgrade(empty)
    config = schema.alembic_config()
    with empty.transaction() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    tables = empty.all(sa.text("select tablename from pg_tables where schemaname = 'keepstep'"))
    assert [row.tablename for row in tables] == ["alembic_version"]
