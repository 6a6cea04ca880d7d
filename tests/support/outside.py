"""An outside world that makes an effect each time it is asked, whatever the key: what happened twice is seen."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import psycopg2
import sqlalchemy as sa

from keepstep.checkpoint.database import Database

TABLE = """
create table if not exists effects (id bigint generated always as identity, thread_id text, step text, key text)
"""
_INSERT = "insert into effects (thread_id, step, key) values (%s, %s, %s)"


@dataclass(frozen=True)
class Effect:
    thread_id: str
    step: str
    key: str


def prepare(db: Database) -> None:
    db.run(sa.text(TABLE), {})


def make(thread_id: str, step: str, key: str) -> str:
    """Make the effect, on a connection of its own, and commit it; a receipt."""
    _run(_INSERT, (thread_id, step, key))
    return uuid.uuid4().hex


def is_made(key: str) -> bool:
    """Whether the effect under this key was made: what a `verify` asks."""
    return bool(_run("select 1 from effects where key = %s", (key,)))


def write(connection: sa.Connection, thread_id: str, step: str, key: str) -> None:
    """Make the effect in the step's own transaction."""
    connection.execute(
        sa.text("insert into effects (thread_id, step, key) values (:thread_id, :step, :key)"),
        {"thread_id": thread_id, "step": step, "key": key},
    )


def effects(db: Database, thread_id: str) -> list[Effect]:
    """Every effect of the case, in order: raw calls, repeated ones included."""
    of_the_case = sa.text("select thread_id, step, key from effects where thread_id = :t order by id")
    rows = db.all(of_the_case, {"t": thread_id})
    return [Effect(row.thread_id, row.step, row.key) for row in rows]


def raw_calls(db: Database, thread_id: str) -> Counter[str]:
    """How often each step's effect was made."""
    return Counter(effect.step for effect in effects(db, thread_id))


def _run(statement: str, parameters: tuple[Any, ...]) -> list[Any]:
    url = os.environ["KEEPSTEP_DATABASE_URL"].replace("postgresql+psycopg2://", "postgresql://")
    connection = psycopg2.connect(url, application_name="the outside world")
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()
