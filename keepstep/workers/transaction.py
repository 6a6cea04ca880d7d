"""A transactional step's own transaction: what it writes and its checkpoint are committed together, or neither is.

The step gets a SQLAlchemy connection that refuses to commit or roll back, inside of a savepoint. If its lease is lost
meanwhile, the fenced commit finds no row, and everything is rolled back. A worker that is frozen in the middle holds
its locks for the length of a lease at the most: PostgreSQL then ends the idle session.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Row, may_pass
from keepstep.steps.errors import BadOutcome, DatabaseUnavailable
from keepstep.workers.engine import Engine

_CHECK_DEFERRED = sa.text("set constraints all immediate")


_ENDS_ITSELF = (
    "a transactional step ended its own transaction. Leave commit and rollback to keepstep: use a savepoint, "
    "call.connection.begin_nested(), for what you may want to undo."
)
_ENDED = (DBAPIError, sa.exc.InvalidRequestError)


class TransactionLost(Exception):
    """The connection went, and with it whatever the step wrote: it certainly took no effect."""


class Transaction:
    """The open transaction of one attempt. guarded: it is the step's turn, which may not end it."""

    def __init__(self, connection: sa.Connection):
        self.connection = connection.execution_options(keepstep_transaction=self)
        self.guarded = False

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The step's function, in a savepoint, which whatever it raises rolls back; it can't end the transaction."""

        def guarded(state: Any, call: Any) -> Any:
            call._connection = self.connection
            savepoint = self.connection.begin_nested()
            self.guarded = True
            try:
                value = function(state, call)
                if inspect.isawaitable(value):
                    raise BadOutcome(
                        "a transactional step must not be async: its SQL would run outside of its savepoint"
                    )
                self.connection.execute(_CHECK_DEFERRED)  # what they refuse is the step's error, not the commit's
            except BaseException as error:
                self.guarded = False
                with suppress(*_ENDED):  # its connection may be gone
                    savepoint.rollback()
                if isinstance(error, sa.exc.InvalidRequestError) and not savepoint.is_active:
                    raise BadOutcome(_ENDS_ITSELF) from error
                raise
            self.guarded = False
            _release(savepoint)
            return value

        return guarded

    def one(self, statement: sa.Executable, params: Mapping[str, Any]) -> Row | None:
        """Run a statement of keepstep's in it; its first row."""
        return self.connection.execute(statement, params).first()

    def rollback(self) -> None:
        """Nothing of it happened. A connection that is gone has said so already."""
        with suppress(*_ENDED):
            self.connection.rollback()

    def commit(self) -> None:
        """All of it happened, once this returns. Raises DBAPIError if that can't be said."""
        self.connection.commit()


@contextmanager
def lend(engine: Engine, claimed: Claim) -> Iterator[Transaction | None]:
    """A transaction for the step if it is transactional, else None. It is rolled back if nobody commits it.

    TransactionLost if there is no connection to be had for it.
    """
    if not engine.registry.is_transactional(claimed.workflow, claimed.step):
        yield None
        return
    try:
        with engine.transactions.undecided() as connection:
            _watch(connection.engine)
            yield Transaction(connection)
    except DatabaseUnavailable as error:
        raise TransactionLost(str(error)) from error


def _release(savepoint: sa.NestedTransaction) -> None:
    try:
        savepoint.commit()
    except (sa.exc.InvalidRequestError, DBAPIError) as error:
        if isinstance(error, DBAPIError) and may_pass(error):
            raise
        raise BadOutcome(_ENDS_ITSELF) from error


def _watch(engine: sa.Engine) -> None:
    if not event.contains(engine, "commit", _refuse):
        event.listen(engine, "commit", _refuse)
        event.listen(engine, "rollback", _refuse)
        event.listen(engine.pool, "reset", _discard)


def _refuse(connection: sa.Connection) -> None:
    transaction = connection.get_execution_options().get("keepstep_transaction")
    if transaction is not None and transaction.guarded:
        raise BadOutcome(
            "call.connection belongs to a transaction that keepstep commits together with the checkpoint: it can be "
            "neither committed nor rolled back by the step. Raise an error to undo everything, or use "
            "call.connection.begin_nested() for a part."
        )


def _discard(dbapi_connection: Any, _record: Any, reset_state: Any) -> None:
    """What a step has set in its session (a time limit, a role, a lock) is not the next one's."""
    if not reset_state.terminate_only:
        dbapi_connection.rollback()
        with dbapi_connection.cursor() as cursor:
            dbapi_connection.autocommit = True
            cursor.execute("discard all")
