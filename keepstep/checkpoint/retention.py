"""Ended cases leave, with all that is theirs, in batches so small that nobody waits for one."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import retention as sql
from keepstep.steps.errors import BadFilter
from keepstep.steps.moves import TERMINAL

BATCH = 20
"""Cases that one transaction deletes."""


@dataclass(frozen=True, kw_only=True)
class Old:
    """Ended cases of a workflow, whatever their retention. older_than: seconds since the end. status: None is any."""

    workflow: str
    older_than: float
    status: str | None = None

    def __post_init__(self) -> None:
        if self.status is not None and self.status not in TERMINAL:
            raise BadFilter(f"only what has ended is pruned: {', '.join(sorted(TERMINAL))}; not {self.status!r}")


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """Cases that went, or would go, of one workflow and status."""

    workflow: str
    status: str
    cases: int


def prune(db: Database, limit: int, *, seconds: float | None = None, old: Old | None = None) -> list[Pruned]:
    """Delete ended cases past their retention, or those that are `old`. Safe to run anywhere, at any time, at once.

    limit: the most that go. seconds: begin no further batch after so many. A case that somebody has locked, that has
    hooks to be called, or a child that lives, is left for the next time.
    """
    gone: Counter[tuple[str, str]] = Counter()
    began = time.monotonic()
    while gone.total() < limit and (seconds is None or time.monotonic() - began < seconds):
        batch = _batch(db, min(BATCH, limit - gone.total()), old)
        if not batch:
            break
        gone += batch
    return _listed(gone)


def prunable(db: Database, old: Old | None = None) -> list[Pruned]:
    """What `prune` would delete if it deleted all; some of it may have to wait."""
    statement, params = (sql.COUNT_EXPIRED, {}) if old is None else (sql.COUNT_OLD, _params(old))
    return [Pruned(workflow=r.workflow, status=r.status, cases=r.cases) for r in db.all(statement, params)]


def _batch(db: Database, limit: int, old: Old | None) -> Counter[tuple[str, str]]:
    statement, params = (sql.LOCK_EXPIRED, {}) if old is None else (sql.LOCK_OLD, _params(old))
    with db.transaction() as connection:
        connection.execute(sql.NO_FLUSH)
        due = [row.id for row in connection.execute(statement, {**params, "limit": limit})]
        going = _with_children(connection, due) if due else []
        if not going:
            return Counter()
        return Counter((row.workflow, row.status) for row in connection.execute(sql.REMOVE, {"ids": going}))


def _with_children(connection: sa.Connection, due: list[UUID]) -> list[UUID]:
    """The cases and their children, without the families of which one can't go now."""
    root_of: dict[UUID, UUID] = {row.id: row.root for row in connection.execute(sql.CHILDREN, {"ids": due})}
    if not root_of:
        return due
    locked = {row.id for row in connection.execute(sql.LOCK_CHILDREN, {"ids": list(root_of)})}
    staying = {root for child, root in root_of.items() if child not in locked}
    if staying:
        connection.execute(sql.PUT_OFF, {"ids": list(staying)})
    return [case for case in (*due, *root_of) if root_of.get(case, case) not in staying]


def _params(old: Old) -> Mapping[str, Any]:
    return {"workflow": old.workflow, "older": old.older_than, "status": old.status}


def _listed(gone: Counter[tuple[str, str]]) -> list[Pruned]:
    return [Pruned(workflow=w, status=s, cases=n) for (w, s), n in sorted(gone.items())]
