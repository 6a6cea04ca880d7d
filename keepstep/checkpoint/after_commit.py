"""Act after the commit of a SQLAlchemy connection that isn't ours.

SQLAlchemy announces a commit before it makes it, and has no event for after. What is certainly after it: the
connection goes back to its pool, or begins its next transaction. So a commit that is announced is remembered, and
acted on there; what was not committed by then is dropped. Savepoints announce no commit: the outermost one counts.
In autocommit nothing is announced, because all is over at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from keepstep.checkpoint.lent import is_autocommit

Act = Callable[[], object]

_KEY = "keepstep after commit"

log = logging.getLogger("keepstep.start")


@dataclass
class _Acts:
    waiting: list[Act] = field(default_factory=list)
    committed: list[Act] = field(default_factory=list)


def after_commit(connection: sa.Connection, act: Act) -> None:
    """Call `act` once the connection's transaction is committed; never, if it is rolled back."""
    if is_autocommit(connection):
        _do([act])
        return
    engine = connection.engine
    if not event.contains(engine, "commit", _commit):  # once for each engine: there is no removing while they run
        event.listen(engine, "commit", _commit)
        event.listen(engine, "begin", _begin)
        event.listen(engine.pool, "checkin", _checkin)
    connection.info.setdefault(_KEY, _Acts()).waiting.append(act)


def _commit(connection: sa.Connection) -> None:
    acts = connection.info.get(_KEY)
    if acts is not None:
        acts.committed, acts.waiting = [*acts.committed, *acts.waiting], []


def _begin(connection: sa.Connection) -> None:
    _settle(connection.info)


def _checkin(_dbapi_connection: Any, record: Any) -> None:
    _settle(record.info)


def _settle(info: Any) -> None:
    acts = info.pop(_KEY, None)
    _do(acts.committed if acts is not None else ())


def _do(acts: Iterable[Act]) -> None:
    for act in acts:
        try:
            act()
        except Exception:  # the caller's transaction is over, and must not hear of it
            log.exception("what was to follow a commit failed; the sweep does it later")
