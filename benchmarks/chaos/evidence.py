"""All that is known of each case when a run is over: what keepstep says, and what the outside world saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from benchmarks.chaos import outside
from benchmarks.chaos.outside import Line
from benchmarks.chaos.stage import Stage
from benchmarks.chaos.workflow import chaos
from keepstep.checkpoint.reads import Event
from keepstep.testing.crash.facts import FAMILY

_ROWS = sa.text("select thread_id, step, key from chaos_effects")
_BELOW = sa.text(f"""{FAMILY}
select f.root, f.place, coalesce(h.status, k.status) as status
  from family f join keepstep.cases k on k.id = f.id left join keepstep.heads h on h.id = f.id where f.place <> ''
""")


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Something that was done to the world. what: the step, or its recorded call. receipt: None where there is none."""

    what: str
    key: str
    receipt: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One case. lines: of the outside world. rows: what transactional steps wrote. below: its branches' statuses, and
    theirs, by place: `#7[2]` is branch 2 of the fan-out at checkpoint 7.
    """

    thread_id: str
    run: UUID
    status: str
    state: dict[str, Any]
    history: Sequence[Event] = ()
    lines: Sequence[Line] = ()
    rows: Sequence[Effect] = field(default=())
    below: Mapping[str, str] = field(default_factory=dict)

    @property
    def effects(self) -> list[Effect]:
        """All of them, repeated ones included."""
        made = [Effect(what=e.what, key=e.key, receipt=e.receipt) for e in self.lines if e.kind == "made"]
        return [*made, *self.rows]


def gather(stage: Stage, thread_ids: Iterable[str]) -> list[Evidence]:
    """Of these cases."""
    rows: dict[str, list[Effect]] = {}
    for row in stage.db.all(_ROWS):
        rows.setdefault(row.thread_id, []).append(Effect(what=row.step, key=row.key))
    below: dict[str, dict[str, str]] = {}
    for row in stage.db.all(_BELOW, {"prefix": "case-"}):
        below.setdefault(row.root, {})[row.place] = row.status
    return [_of_one(stage, name, rows.get(name, []), below.get(name, {})) for name in thread_ids]


def _of_one(stage: Stage, thread_id: str, rows: list[Effect], below: Mapping[str, str]) -> Evidence:
    case = stage.patient(lambda: stage.client.get(chaos, thread_id))
    return Evidence(
        thread_id=thread_id,
        run=case.run,
        status=str(case.status),
        state=case.state,
        history=stage.patient(lambda: stage.client.history(chaos, thread_id)),
        lines=outside.lines(thread_id),
        rows=rows,
        below=below,
    )
