"""The way to PostgreSQL: one engine a process, made when first used, never shared across a fork."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import psycopg2
import psycopg2.extras
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import QueuePool

from keepstep.checkpoint.database_errors import may_pass as may_pass
from keepstep.checkpoint.database_errors import sqlstate, told, without_values
from keepstep.checkpoint.prepared import LOST, PLANS, Plan
from keepstep.checkpoint.sql import hot
from keepstep.config.settings import without_password
from keepstep.steps.errors import DatabaseUnavailable

psycopg2.extras.register_uuid()

Row = sa.Row[Any]

log = logging.getLogger("keepstep.database")


class Database:
    """Runs statements: each alone in autocommit, or several in one transaction.

    pool_size: connections kept and, at the most, open. A connection is held for the length of one statement or
    transaction only, never while a step runs. ping: try each connection before use, so that a restart of the server
    between two calls goes unnoticed; it costs a round trip, and whoever tries again by itself goes without.
    prepare: run the hot statements as prepared ones. lease: seconds for which a transaction may do nothing; then
    PostgreSQL ends it, so that whoever is frozen in the middle of one, or has vanished, keeps its locks from nobody.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 5,
        application_name: str = "keepstep",
        ping: bool = False,
        prepare: bool = False,
        lease: float = 10.0,
    ):
        self.url, self._pool_size, self._name, self._ping = url, pool_size, application_name, ping
        self._idle = {"milliseconds": str(int(lease * 1000))}
        self._plans: Mapping[Any, Plan] = PLANS if prepare else {}
        self._engine: sa.Engine | None = None
        self._pid: int | None = None
        self._lock = threading.Lock()

    def resize(self, pool_size: int) -> None:
        """Keep as many connections from now on; for the start of a process, when it learns how much it does at once."""
        self.dispose()
        self._pool_size = pool_size

    @property
    def engine(self) -> sa.Engine:
        """This process's engine; a child that inherited its parent's makes its own."""
        if self._engine is None or self._pid != os.getpid():
            if self._pid not in (None, os.getpid()):
                self._lock = threading.Lock()  # a thread of the parent may have held it at the fork
            with self._lock:
                if self._engine is not None and self._pid != os.getpid():
                    self._engine.dispose(close=False)  # the sockets are the parent's
                    self._engine = None
                if self._engine is None:
                    self._engine = self._make()
                    self._pid = os.getpid()
        return self._engine

    def _make(self) -> sa.Engine:
        engine = sa.create_engine(
            self.url,
            poolclass=QueuePool,
            pool_size=self._pool_size,
            max_overflow=0,
            pool_timeout=10,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,  # a state may hold secrets, and an error goes to the log
            connect_args={
                "connect_timeout": 5,
                "application_name": self._name,
                # a peer that vanished is noticed within seconds, not hours
                "keepalives_idle": 5,
                "keepalives_interval": 2,
                "keepalives_count": 3,
                "tcp_user_timeout": 15000,
            },
        )
        sa.event.listen(engine, "handle_error", without_values)
        if self._ping:
            sa.event.listen(engine, "checkout", _ping)
        return engine

    def one(self, statement: sa.Executable, params: Mapping[str, Any]) -> Row | None:
        """Run one statement in a transaction of its own; its first row."""
        plan = self._plans.get(statement)
        if plan is not None:
            return next(iter(self._rows(plan, statement, params)), None)
        with self.connect() as connection:
            return connection.execute(statement, params).first()

    def together(self, first: sa.TextClause, statement: sa.TextClause, params: Mapping[str, Any]) -> list[Row]:
        """Run two statements in one message, and so in one transaction; the rows of the second.

        params: of both, which share no name that means two things.
        """
        plans = self._plans.get(first), self._plans.get(statement)
        both = _both(first, statement)
        if plans[0] is not None and plans[1] is not None:
            return self._rows(plans[1], both, params, plans[0])
        return self.all(both, params)

    def _rows(
        self, plan: Plan, statement: sa.Executable, params: Mapping[str, Any], first: Plan | None = None
    ) -> list[Row]:
        """All rows of a prepared statement; by the ordinary way, from now on, if there is a pooler in between."""
        try:
            connection = self.engine.raw_connection()
        except psycopg2.Error as error:  # SQLAlchemy wraps it in connect(), but not here
            raise self._unavailable(self._wrapped(error, gone=True)) from error
        except (PoolTimeout, DBAPIError) as error:
            raise self._unavailable(error) from error
        try:
            rows: list[Row] = plan.rows(connection, params, first)
        except psycopg2.Error as error:
            error.args = (told(error),)
            gone = self.engine.dialect.is_disconnect(error, connection.driver_connection, None)
            connection.invalidate(error)
            if error.pgcode in LOST:
                log.warning("prepared statements don't last on this connection, going without: %s", error)
                self._plans = {}
                return self.all(statement, params)
            raise self._unavailable(self._wrapped(error, gone=gone)) from error
        except BaseException:
            connection.invalidate()  # interrupted in the middle of a reply
            raise
        connection.close()
        return rows

    def all(self, statement: sa.Executable, params: Mapping[str, Any] | None = None) -> list[Row]:
        """Run one statement in a transaction of its own; all its rows."""
        plan = self._plans.get(statement)
        if plan is not None:
            return self._rows(plan, statement, params or {})
        with self.connect() as connection:
            return list(connection.execute(statement, params or {}).all())

    def run(self, statement: sa.Executable, params: Mapping[str, Any]) -> int:
        """Run one statement in a transaction of its own; how many rows it changed."""
        with self.connect() as connection:
            return connection.execute(statement, params).rowcount

    def within(self, connection: sa.Connection, statement: sa.Executable, params: Mapping[str, Any]) -> list[Row]:
        """Run one statement on a connection that `connect` or `transaction` gave; all its rows. A hot one is prepared.

        Behind a pooler it is DatabaseUnavailable, once: whoever tries again goes the ordinary way.
        """
        plan = self._plans.get(statement)
        if plan is None:
            return list(connection.execute(statement, params).all())
        driver = connection.connection
        try:
            return plan.rows(driver, params)
        except psycopg2.Error as error:
            error.args = (told(error),)
            lost = error.pgcode in LOST
            if lost:
                log.warning("prepared statements don't last on this connection, going without: %s", error)
                self._plans = {}
            gone = lost or self.engine.dialect.is_disconnect(error, driver.driver_connection, None)
            raise self._wrapped(error, gone=gone) from error

    @contextmanager
    def connect(self, *, untried: bool = False) -> Iterator[sa.Connection]:
        """A connection in autocommit. DatabaseUnavailable for whatever may pass by itself. untried: without a ping."""
        with self._translated(untried=untried) as connection:
            yield connection

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """A READ COMMITTED transaction, committed when the block ends without an error."""
        with self._translated() as connection:
            connection = connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                self.within(connection, hot.IDLE, self._idle)
                yield connection

    @contextmanager
    def snapshot(self) -> Iterator[sa.Connection]:
        """A read-only transaction that sees one instant, for much to read: rows are fetched as they are asked for."""
        with self._translated() as connection:
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True, "stream_results": True}
            connection = connection.execution_options(**options)
            with connection.begin():
                yield connection

    @contextmanager
    def undecided(self) -> Iterator[sa.Connection]:
        """A READ COMMITTED transaction that the block itself commits; rolled back if it doesn't."""
        with self._translated() as connection:
            connection = connection.execution_options(isolation_level="READ COMMITTED")
            transaction = connection.begin()
            try:
                self.within(connection, hot.IDLE, self._idle)
                yield connection
            finally:
                if transaction.is_active:
                    transaction.rollback()

    @contextmanager
    def _translated(self, *, untried: bool = False) -> Iterator[sa.Connection]:
        try:
            with self._checked_out(untried) as connection:
                try:
                    yield connection
                except DBAPIError as error:
                    if may_pass(error):
                        connection.invalidate()  # after a failover, say, the next one may lead to the new primary
                    raise
        except psycopg2.Error as error:  # setting the isolation level of a dead connection isn't wrapped either
            raise self._unavailable(self._wrapped(error, gone=True)) from error
        except (PoolTimeout, DBAPIError) as error:
            raise self._unavailable(error) from error

    def _checked_out(self, untried: bool) -> sa.Connection:
        before = _untried.set(untried)
        try:
            return self.engine.connect()
        finally:
            _untried.reset(before)

    def _wrapped(self, error: psycopg2.Error, *, gone: bool) -> Any:
        """The driver's error as SQLAlchemy gives it. gone: its connection is of no more use."""
        return DBAPIError.instance(None, None, error, psycopg2.Error, connection_invalidated=gone)

    def _unavailable(self, error: Any) -> Exception:
        """DatabaseUnavailable for whatever may pass by itself; else the error as it is."""
        where = without_password(self.url)
        if isinstance(error, PoolTimeout):
            message = f"PostgreSQL at {where}: all {self._pool_size} connections are in use"
            return DatabaseUnavailable(message, lost=False)
        if not may_pass(error):
            return error  # type: ignore[no-any-return]
        reason = str(error.orig).strip().splitlines()[0] if error.orig else str(error)
        message = f"PostgreSQL at {where} can't be reached, or can't work now: {reason}"
        return DatabaseUnavailable(message, lost=error.connection_invalidated or not sqlstate(error))

    def dispose(self) -> None:
        """Close the connections of this process."""
        if self._engine is not None:
            self._engine.dispose(close=self._pid == os.getpid())
            self._engine = None


_untried: ContextVar[bool] = ContextVar("keepstep_untried", default=False)
"""Whether the connection that is checked out just now isn't to be tried before."""


def _ping(connection: Any, _record: Any, _proxy: Any) -> None:
    """Refuse a connection that has ended, for the pool to open another one."""
    if _untried.get():
        return
    try:
        connection.cursor().execute("select 1")
    except psycopg2.Error as error:
        raise DisconnectionError(str(error)) from error


@lru_cache(maxsize=64)
def _both(first: sa.TextClause, statement: sa.TextClause) -> sa.TextClause:
    return sa.text(f"{first.text};\n{statement.text}")
