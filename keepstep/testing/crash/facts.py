"""What became of the cases of a crash test, and of their branches, read in bulk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec, reads
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import CheckpointDamaged

LOST = frozenset({"crashed", "node_died", "orphaned", "released", "timed_out"})
"""Outcomes of attempts that were taken away: their step was delivered again."""

FAMILY = """
with recursive family as (
  select k.id, k.thread_id as root, '' as place from keepstep.cases k
   where starts_with(k.thread_id, :prefix) and k.parent is null
  union all
  select k.id, f.root, f.place || '#' || k.parent_seq || '[' || k.branch || ']'
    from family f join keepstep.cases k on k.parent = f.id
)"""
"""The cases whose thread ids begin with a prefix, and all below. place: `#2[1]` is branch 1 of the fan-out at 2."""

_CASES = sa.text(f"""{FAMILY}
select f.root, f.place, k.id, k.workflow, k.thread_id, coalesce(h.status, k.status) as status, h.step,
       coalesce(h.reason, k.error)::text as why
  from family f join keepstep.cases k on k.id = f.id left join keepstep.heads h on h.id = k.id
 order by f.root, k.parent_seq, k.branch
""")

_CHECKPOINTS = sa.text(f"""{FAMILY}
select c.case_id, c.seq, c.kind, c.step, c.target, c.key_read
  from family f join keepstep.checkpoints c on c.case_id = f.id order by c.case_id, c.seq
""")

_ATTEMPTS = sa.text(f"""{FAMILY}
select a.case_id, a.seq, a.step, a.outcome
  from family f join keepstep.attempts a on a.case_id = f.id order by a.id
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
    """One case. why: the reason why it is held, or its error. lost: (seq, step) of attempts that were taken away.

    branches: all below it, by place. Of those nobody needs the state: their results are in its own.
    """

    thread_id: str
    status: str
    step: str | None
    why: dict[str, Any]
    state: Any
    written: tuple[Written, ...]
    lost: tuple[tuple[int, str], ...]
    workflow: str = ""
    branches: Mapping[str, Lived] = field(default_factory=dict)

    @property
    def path(self) -> tuple[tuple[int, str, str], ...]:
        """Its checkpoints, whoever wrote them: a step that was verified counts as the step."""
        return tuple((w.seq, "step" if w.kind == "verify" else w.kind, w.step) for w in self.written)

    @property
    def family(self) -> Iterator[Lived]:
        """Itself, and all below it."""
        yield self
        yield from self.branches.values()

    def at(self, place: str) -> Lived | None:
        """The branch at this place, "" for itself; None if there is none."""
        return self if not place else self.branches.get(place)


def gather(db: Database, prefix: str) -> dict[str, Lived]:
    """The cases whose thread ids begin with `prefix`, with their branches, by thread id."""
    which = {"prefix": prefix}
    written: dict[UUID, list[Written]] = {}
    for row in db.all(_CHECKPOINTS, which):
        one = Written(seq=row.seq, kind=row.kind, step=row.step, target=row.target, key_read=row.key_read)
        written.setdefault(row.case_id, []).append(one)
    lost: dict[UUID, list[tuple[int, str]]] = {}
    for row in db.all(_ATTEMPTS, which):
        if row.outcome in LOST:
            lost.setdefault(row.case_id, []).append((row.seq, row.step))
    found: dict[str, Lived] = {}
    below: dict[str, dict[str, Lived]] = {}
    for row in db.all(_CASES, which):
        its = written.get(row.id, [])
        one_case = Lived(
            thread_id=row.thread_id,
            workflow=row.workflow,
            status=row.status,
            step=row.step,
            why=codec.decode(row.why) if row.why else {},
            state=None if row.place else _state(db, row.id, its),
            written=tuple(its),
            lost=tuple(lost.get(row.id, ())),
        )
        if row.place:
            below.setdefault(row.root, {})[row.place] = one_case
        else:
            found[row.root] = one_case
    return {root: replace(one, branches=below.get(root, {})) for root, one in found.items()}


def _state(db: Database, case: UUID, written: list[Written]) -> Any:
    try:
        return reads.state_at(db, case, written[-1].seq) if written else None
    except CheckpointDamaged as damage:
        return {"damaged": str(damage)}
