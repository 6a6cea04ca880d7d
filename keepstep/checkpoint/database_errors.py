"""What PostgreSQL's errors say: whether it may pass, and without the values of refused rows."""

from __future__ import annotations

import re

import psycopg2
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError


def without_values(context: sa.engine.ExceptionContext) -> None:
    """Take what PostgreSQL quotes of a refused row out of an error: it goes to the log, and may hold a secret."""
    if isinstance(context.original_exception, psycopg2.Error) and context.sqlalchemy_exception is not None:
        before = str(context.original_exception)
        context.original_exception.args = (told(context.original_exception),)
        said = context.sqlalchemy_exception.args[0].replace(before, str(context.original_exception))
        context.sqlalchemy_exception.args = (said,)


def told(error: psycopg2.Error) -> str:
    return re.sub(r"(?m)^(DETAIL: +Failing row contains).*", r"\1 (not shown)", str(error), flags=re.DOTALL)


_PASSING_CLASSES = {"08", "40", "53", "57", "58"}
"""Connection exceptions, transaction rollbacks, insufficient resources, operator intervention, system errors."""
_PASSING = {"25006", "25P03", "55P03"}
"""A server that is (still) a read-only standby; an idle transaction ended; a lock that was not to be had."""


def may_pass(error: DBAPIError) -> bool:
    """Whether the surroundings, not the statement, were at fault: worth trying again."""
    if error.connection_invalidated or isinstance(error, InterfaceError):
        return True
    code = sqlstate(error)
    if code is None:
        return isinstance(error, OperationalError)
    return code[:2] in _PASSING_CLASSES or code in _PASSING


def sqlstate(error: DBAPIError) -> str | None:
    """What PostgreSQL said; None if nothing was heard of it."""
    return getattr(error.orig, "pgcode", None)
