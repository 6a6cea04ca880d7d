"""A connection that the caller lends, so that a case starts in the caller's own transaction.

Whatever it is, keepstep only runs statements on it: it never commits, rolls back or closes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg2
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.pool import PoolProxiedConnection

from keepstep.steps.errors import BadConnection

LOCK_NOT_AVAILABLE = "55P03"


class Lent(Protocol):
    """What a start needs of a transaction."""

    def rows(self, statement: sa.TextClause, params: Mapping[str, Any]) -> list[Any]:
        """Run a statement; its rows, with the columns as attributes."""


class ByAlchemy:
    """A SQLAlchemy connection."""

    def __init__(self, connection: sa.Connection):
        self.connection = connection

    def rows(self, statement: sa.TextClause, params: Mapping[str, Any]) -> list[Any]:
        """Run a statement; its rows."""
        return list(self.connection.execute(statement, params).all())


class ByDriver:
    """A raw connection of psycopg2 or psycopg, on a cursor of its own."""

    def __init__(self, connection: Any):
        self._connection = connection

    def rows(self, statement: sa.TextClause, params: Mapping[str, Any]) -> list[Any]:
        """Run a statement; its rows, whatever row factory the connection has."""
        with _plain_cursor(self._connection) as cursor:
            cursor.execute(_pyformat(statement), dict(params))
            names = [column[0] for column in cursor.description]
            return [_Row(zip(names, row, strict=True)) for row in cursor.fetchall()]


class _Row:
    def __init__(self, pairs: Any):
        self.__dict__.update(pairs)


def lent(connection: Any) -> ByAlchemy | ByDriver:
    """The caller's connection as a start uses it; BadConnection if it can't be used."""
    if isinstance(connection, ByAlchemy | ByDriver):
        return connection
    if isinstance(connection, Session | scoped_session):
        connection = connection.connection()
    if isinstance(connection, sa.Connection):
        if connection.dialect.name != "postgresql":
            raise BadConnection(connection)
        return ByAlchemy(connection)
    if isinstance(connection, PoolProxiedConnection):  # of engine.raw_connection()
        connection = connection.driver_connection
    if _driver(connection) is None:
        raise BadConnection(connection)
    return ByDriver(connection)


def sqlstate(error: BaseException) -> str | None:
    """PostgreSQL's code for what went wrong, from psycopg2 or psycopg, bare or wrapped by SQLAlchemy."""
    driver_error = getattr(error, "orig", None) or error
    code = getattr(driver_error, "pgcode", None) or getattr(driver_error, "sqlstate", None)
    return code if isinstance(code, str) else None


def is_autocommit(connection: sa.Connection) -> bool:
    """Whether each statement on it is committed at once, so that there is no commit to come."""
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _driver(connection: Any) -> str | None:
    """psycopg2 or psycopg, if it is one of their synchronous connections, or a subclass as tracing libraries make."""
    named = {(kind.__module__.partition(".")[0], kind.__name__) for kind in connection.__class__.__mro__}
    return next((d for d, kind in (("psycopg2", "connection"), ("psycopg", "Connection")) if (d, kind) in named), None)


def _plain_cursor(connection: Any) -> Any:
    if _driver(connection) == "psycopg":
        from psycopg import ClientCursor
        from psycopg.rows import tuple_row

        return ClientCursor(connection, row_factory=tuple_row)
    from psycopg2.extensions import cursor

    return connection.cursor(cursor_factory=cursor)


@cache
def _pyformat(statement: sa.TextClause) -> str:
    """The statement with %(name)s, as both drivers take it."""
    return str(statement.compile(dialect=psycopg2.dialect()))  # type: ignore[no-untyped-call]
