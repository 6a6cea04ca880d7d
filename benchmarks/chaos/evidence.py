"""All that is known of each case when a run is over: what keepstep says, and what the outside world saw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from benchmarks.chaos import outside
from benchmarks.chaos.outside import Line
from benchmarks.chaos.stage import Stage
from benchmarks.chaos.workflow import chaos
from keepstep.checkpoint.reads import Event

_ROWS = sa.text("select thread_id, step, key from chaos_effects")


@dataclass(frozen=True, kw_only=True)
class Effect:
    """Something that was done to the world. what: the step, or its recorded call. receipt: None where there is none."""

    what: str
    key: str
    receipt: str | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One case. lines: of the outside world. rows: what transactional steps wrote."""

    thread_id: str
    run: UUID
    status: str
    state: dict[str, Any]
    history: Sequence[Event] = ()
    lines: Sequence[Line] = ()
    rows: Sequence[Effect] = field(default=())

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
    return [_of_one(stage, thread_id, rows.get(thread_id, [])) for thread_id in thread_ids]


def _of_one(stage: Stage, thread_id: str, rows: list[Effect]) -> Evidence:
    case = stage.patient(lambda: stage.client.get(chaos, thread_id))
    return Evidence(
        thread_id=thread_id,
        run=case.run,
        status=str(case.status),
        state=case.state,
        history=stage.patient(lambda: stage.client.history(chaos, thread_id)),
        lines=outside.lines(thread_id),
        rows=rows,
    )
