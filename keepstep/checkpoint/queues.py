"""Queues as PostgreSQL knows them: what waits in each, for how long, and what its workers have in hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from keepstep.checkpoint import nodes
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.sql import queues as sql

LATELY = 300.0
"""Seconds over which the waits of steps are told."""


@dataclass(frozen=True, kw_only=True)
class QueueView:
    """One queue.

    queued, running: cases at a step of it. oldest: seconds for which the first of the queued has been. median, slow:
    seconds from publish to claim of the steps that began lately, half and 95 % of them at the most; None if there were
    none. steps: how many these were. workers, slots: live nodes that read it, and the steps that they can run at once.
    depth: messages in the broker; None if it doesn't say.
    """

    name: str
    queued: int = 0
    running: int = 0
    oldest: float | None = None
    steps: int = 0
    median: float | None = None
    slow: float | None = None
    workers: int = 0
    slots: int = 0
    depth: int | None = None


def queues(db: Database, live: Sequence[NodeView] | None = None, *, seconds: float | None = LATELY) -> list[QueueView]:
    """All queues in which cases wait or run, that steps came through lately, or that a live node reads; by name.

    live: the nodes that live; None are all that are registered. seconds: what "lately" is; None leaves the waits out,
    which are read step by step.
    """
    found: dict[str, QueueView] = {}
    for row in db.all(sql.QUEUED):
        found[row.queue] = QueueView(name=row.queue, queued=row.queued, running=row.running, oldest=row.oldest)
    for row in () if seconds is None else db.all(sql.WAITS, {"seconds": seconds}):
        if row.queue:
            known = found.get(row.queue, QueueView(name=row.queue))
            found[row.queue] = replace(known, steps=row.steps, median=row.median, slow=row.slow)
    for node in nodes.everyone(db) if live is None else live:
        for name in node.queues:
            known = found.get(name, QueueView(name=name))
            found[name] = replace(known, workers=known.workers + 1, slots=known.slots + node.concurrency)
    return [found[name] for name in sorted(found)]


def lag(db: Database) -> tuple[float, int]:
    """By how many seconds the sweep is behind, and how many heads are overdue (10,000 at the most)."""
    row = db.all(sql.LAG)[0]
    return row.lag, row.overdue


def oldest_wait(db: Database) -> float | None:
    """Seconds since the first of the open questions was asked; None if none is."""
    row = db.one(sql.OLDEST_WAIT, {})
    return None if row is None else row.oldest
