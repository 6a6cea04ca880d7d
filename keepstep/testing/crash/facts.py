"""What became of the cases of a crash test, read in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec, reads
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import CheckpointDamaged

LOST = frozenset({"crashed", "node_died", "orphaned", "released", "timed_out"})
"""Outcomes of attempts that were taken away: their step was delivered again."""

_CASES = sa.text("""
select k.id, k.thread_id, coalesce(h.status, k.status) as status, h.step,
       coalesce(h.reason, k.error)::text as why
  from keepstep.cases k left join keepstep.heads h on h.id = k.id
 where starts_with(k.thread_id, :prefix)
""")

_CHECKPOINTS = sa.text("""
select c.case_id, c.seq, c.kind, c.step, c.target, c.key_read
  from keepstep.checkpoints c join keepstep.cases k on k.id = c.case_id
 where starts_with(k.thread_id, :prefix) order by c.case_id, c.seq
""")

_ATTEMPTS = sa.text("""
select a.case_id, a.seq, a.step, a.outcome
  from keepstep.attempts a join keepstep.cases k on k.id = a.case_id
 where starts_with(k.thread_id, :prefix) order by a.id
""")


@dataclass(frozen=True, kw_only=True)
class Written:
    """A checkpoint. key_read: whether the step asked for its idempotency key; None if no step wrote it."""

    seq: int
    kind: str
    step: str
    target: str | None
    key_read: bool | None


@dataclass(frozen=True, kw_only=True)
class Lived:
    """One case. why: the reason why it is held, or its error. lost: (seq, step) of attempts that were taken away."""

    thread_id: str
    status: str
    step: str | None
    why: dict[str, Any]
    state: Any
    written: tuple[Written, ...]
    lost: tuple[tuple[int, str], ...]

    @property
    def path(self) -> tuple[tuple[int, str, str], ...]:
        """Its checkpoints, whoever wrote them: a step that was verified counts as the step."""
        return tuple((w.seq, "step" if w.kind == "verify" else w.kind, w.step) for w in self.written)


def gather(db: Database, prefix: str) -> dict[str, Lived]:
    """The cases whose thread ids begin with `prefix`, by thread id."""
    which = {"prefix": prefix}
    written: dict[UUID, list[Written]] = {}
    for row in db.all(_CHECKPOINTS, which):
        one = Written(seq=row.seq, kind=row.kind, step=row.step, target=row.target, key_read=row.key_read)
        written.setdefault(row.case_id, []).append(one)
    lost: dict[UUID, list[tuple[int, str]]] = {}
    for row in db.all(_ATTEMPTS, which):
        if row.outcome in LOST:
            lost.setdefault(row.case_id, []).append((row.seq, row.step))
    return {
        row.thread_id: Lived(
            thread_id=row.thread_id,
            status=row.status,
            step=row.step,
            why=codec.decode(row.why) if row.why else {},
            state=_state(db, row.id, written.get(row.id, [])),
            written=tuple(written.get(row.id, ())),
            lost=tuple(lost.get(row.id, ())),
        )
        for row in db.all(_CASES, which)
    }


def _state(db: Database, case: UUID, written: list[Written]) -> Any:
    try:
        return reads.state_at(db, case, written[-1].seq) if written else None
    except CheckpointDamaged as damage:
        return {"damaged": str(damage)}
