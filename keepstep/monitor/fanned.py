"""A fan-out as its case's page shows it: how far it is, and the branches that somebody wants to see first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from uuid import UUID

from keepstep.checkpoint import fan_reads
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.fan_reads import BranchView, FanView
from keepstep.checkpoint.mask import Mask
from keepstep.monitor.scale import WIDTH
from keepstep.steps.keys import case_id
from keepstep.steps.moves import TERMINAL

FANS = 5
"""Fan-outs of a case that are shown, the latest ones."""
ROWS = 12
"""Branches that are named: those that still matter first; of earlier fan-outs those that are held or failed."""

_ORDER = ("completed", "cancelled", "failed", "held", "waiting", "sleeping", "running", "queued")
_FIRST = ("held", "failed")
_NEXT = ("running", "waiting", "sleeping", "queued")


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the bar. status: of so many branches; "refused": they have no case; "begin": not yet."""

    status: str
    count: int
    x: float
    width: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """A branch that is named. id: of its case; None if there is none."""

    id: UUID | None
    branch: BranchView


@dataclass(frozen=True, kw_only=True)
class Fanned:
    """A fan-out. over: how many of its branches have ended. more: how many aren't named."""

    fan: FanView
    over: int
    parts: Sequence[Part]
    rows: Sequence[Row]
    more: int


def fanned(db: Database, case: UUID, mask: Mask) -> list[Fanned]:
    """The latest fan-outs of a case, the newest first, without its secrets."""
    found = fan_reads.fans(db, case)[-FANS:][::-1]
    return [_fanned(db, case, fan, mask, all_of_it=number == 0) for number, fan in enumerate(found)]


def _fanned(db: Database, case: UUID, fan: FanView, mask: Mask, *, all_of_it: bool) -> Fanned:
    rows: list[BranchView] = []
    wanted: list[str | None] = [status for status in (*_FIRST, *_NEXT * all_of_it) if fan.counts.get(status)]
    for status in [*wanted, *[None] * all_of_it]:
        known = {branch.number for branch in rows}
        some = fan_reads.branches(db, case, seq=fan.seq, status=status, limit=ROWS) if len(rows) < ROWS else []
        rows += [branch for branch in some if branch.number not in known]
    rows = rows[:ROWS]
    return Fanned(
        fan=fan,
        over=sum(count for status, count in fan.counts.items() if status in TERMINAL) + fan.refused,
        parts=parts(fan),
        rows=[Row(id=_id(branch), branch=replace(branch, error=mask.json(branch.error))) for branch in rows],
        more=fan.total - len(rows),
    )


def parts(fan: FanView) -> list[Part]:
    """The bar, from those that have ended to those that haven't begun."""
    counts = {status: fan.counts.get(status, 0) for status in _ORDER}
    counts |= {status: count for status, count in fan.counts.items() if status not in counts}  # of a newer release
    counts |= {"refused": fan.refused, "begin": fan.total - fan.made}
    shown = [(status, count) for status, count in counts.items() if count]
    begins = accumulate((count for _, count in shown), initial=0)
    scale = WIDTH / fan.total
    return [
        Part(status=status, count=count, x=round(begin * scale, 2), width=round(count * scale, 2))
        for (status, count), begin in zip(shown, begins, strict=False)
    ]


def _id(branch: BranchView) -> UUID | None:
    return None if branch.workflow is None or branch.thread_id is None else case_id(branch.workflow, branch.thread_id)
