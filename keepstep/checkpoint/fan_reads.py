"""Fan-outs and branches as people and callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.filters import check_limit, check_text
from keepstep.checkpoint.sql import fan_reads as sql


@dataclass(frozen=True, kw_only=True)
class FanView:
    """A fan-out. names: of its steps or child workflows. made: of the `total`, so many have a case.

    counts: of those by status. refused: those whose thread id was taken. fate: None while the case waits for it, then
    "joined", "failed", "unfit" (the results don't fit), or "left". newest: of one that it waits for, the newest version
    of a result, by the workflow that it is of.
    """

    seq: int
    names: tuple[str, ...]
    total: int
    made: int
    max_running: int
    on_error: str
    into: str | None
    opened_at: datetime
    closed_at: datetime | None
    fate: str | None
    refused: int
    counts: Mapping[str, int] = field(default_factory=dict)
    newest: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BranchView:
    """One branch. seq: of its fan-out. number: its place in the list.

    workflow, thread_id, status, step: of its case; None as long as there is none. error: why it is held, or failed.
    """

    seq: int
    number: int
    name: str | None
    workflow: str | None
    thread_id: str | None
    status: str | None
    step: str | None
    error: dict[str, Any] | None


def fans(db: Database, case: UUID, *, open_only: bool = False) -> list[FanView]:
    """The fan-outs of a case, the oldest first. open_only: the one that it waits for, if there is one."""
    return [_fan(row) for row in db.all(sql.FANS, {"id": case, "open_only": open_only})]


def branches(
    db: Database, case: UUID, *, seq: int | None = None, status: str | None = None, after: int = -1, limit: int = 100
) -> list[BranchView]:
    """The branches of a fan-out, by default the latest, in the order of its list, behind number `after`."""
    check_text("status", status)
    params = {"id": case, "seq": seq, "status": status, "after": after, "limit": check_limit(limit)}
    return [
        BranchView(
            seq=row.seq,
            number=row.number,
            name=row.name,
            workflow=row.workflow,
            thread_id=row.thread_id,
            status=row.status,
            step=row.step,
            error=codec.decode(row.error) if row.error else None,
        )
        for row in db.all(sql.BRANCHES, params)
    ]


def _fan(row: Row) -> FanView:
    return FanView(
        seq=row.seq,
        names=tuple(kind["name"] for kind in codec.decode(row.kinds)),
        total=row.total,
        made=row.made,
        max_running=row.max_running,
        on_error=row.on_error,
        into=row.into_field,
        opened_at=row.opened_at,
        closed_at=row.closed_at,
        fate=row.fate,
        refused=row.refused,
        counts=codec.decode(row.counts) if row.counts else {},
        newest=codec.decode(row.newest) if row.newest else {},
    )
