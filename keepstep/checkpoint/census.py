"""How many cases there are by status, and which workflows they are of. Quick, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.filters import check_text
from keepstep.checkpoint.sql import census as sql
from keepstep.steps.moves import LIVE, TERMINAL, Status

MOST, MOST_LIVE = 50_000, 500_000
"""Where a count ends: of the ended cases of one status, and of all live ones, which are few beside them."""


@dataclass(frozen=True, kw_only=True)
class Census:
    """cases: by status, all of them. paused: how many of the live ones are. capped: counts that say "at least"."""

    cases: dict[str, int]
    paused: int = 0
    capped: frozenset[str] = field(default_factory=frozenset)

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.cases.values())


def census(db: Database, workflow: str | None = None, *, most: int = MOST, live: int = MOST_LIVE) -> Census:
    """Count up to `most` ended cases of each status, and up to `live` live ones. Raises BadFilter."""
    check_text("workflow", workflow)
    counted = dict.fromkeys(map(str, Status), 0)
    paused = 0
    for row in db.all(sql.CASES, {"workflow": workflow, "limit": most, "live": live}):
        counted[row.status] += row.cases
        paused += row.cases if row.paused else 0
    capped = {str(status) for status in TERMINAL if counted[status] >= most}
    if sum(counted[status] for status in LIVE) >= live:
        capped |= set(map(str, LIVE))
    return Census(cases=counted, paused=paused, capped=frozenset(capped))


def workflows(db: Database) -> list[str]:
    """The names of the workflows that cases are of: one look into an index for each."""
    return [row.workflow for row in db.all(sql.WORKFLOWS, {"limit": 200})]


def known(db: Database, ids: Sequence[UUID]) -> list[UUID]:
    """Those of the ids that are cases'."""
    return [row.id for row in db.all(sql.KNOWN, {"ids": list(ids)})] if ids else []


def names(db: Database, case: UUID) -> tuple[str, str] | None:
    """A case's workflow and thread id; None: there is no such case."""
    row = db.one(sql.NAMES, {"id": case})
    return None if row is None else (row.workflow, row.thread_id)
