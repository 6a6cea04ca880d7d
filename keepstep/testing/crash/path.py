"""The write points that one undisturbed case and its branches come by: all the places at which they can be killed."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pydantic import BaseModel

from keepstep.steps.keys import case_id
from keepstep.testing.crash.facts import Lived
from keepstep.testing.crash.points import Reached
from keepstep.testing.crash.sameness import NAMED
from keepstep.testing.crash.stage import Stage
from keepstep.workers.failpoints import POINTS

State = Mapping[str, Any] | BaseModel | Callable[[str], Mapping[str, Any] | BaseModel]
"""What a case begins with, or a function of its thread id that says so."""

AHEAD = 25
"""Points are armed for so many checkpoints in advance: more than a group of waits writes in between."""
EACH_END = 10
"""Of a fan-out, so many branches of the list's begin and of its end are watched."""
EVERY, QUIET, LAST = 0.003, 0.06, 0.25
"""Seconds between two looks; without a point before other things are looked after; and after the end of the case."""

_BORN = sa.text("""
select k.id, k.workflow, k.thread_id, k.parent_seq, k.branch
  from keepstep.cases k join keepstep.fans f on f.case_id = k.parent and f.seq = k.parent_seq
 where k.parent = :parent and (k.branch < :each or k.branch >= f.total - :each) order by k.parent_seq, k.branch
""")


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A point that the case came by. seq: where its step starts from. nth: of this point at this seq, from 1 on.

    in_main: by the worker's main process, not by one of its pool. place: of a branch, as in `Lived.branches`; its
    workflow, and its thread id with a word in the place of the case's own.
    """

    point: str
    seq: int
    nth: int
    in_main: bool
    place: str = ""
    workflow: str = ""
    thread_id: str = NAMED

    @property
    def row(self) -> tuple[str, int]:
        """Where it stands in a table: the case's own first, and behind them the branches'."""
        return self.place, self.seq


@dataclass(frozen=True)
class _Member:
    """The case, or a branch of it."""

    place: str
    workflow: str
    thread_id: str


@dataclass
class _Recorder:
    stage: Stage
    root: str
    members: dict[UUID, _Member] = field(default_factory=dict)
    armed: dict[UUID, int] = field(default_factory=dict)
    times: Counter[tuple[UUID, str, int]] = field(default_factory=Counter)
    visits: list[Visit] = field(default_factory=list)

    def add(self, case: UUID, member: _Member) -> None:
        self.members[case] = member
        self.arm(case, AHEAD)

    def arm(self, case: UUID, up_to: int) -> None:
        for seq in range(self.armed.get(case, 0), up_to):
            for point in POINTS:
                self.stage.points.arm(point, case, seq, "halt")
        self.armed[case] = max(self.armed.get(case, 0), up_to)

    def note(self, reached: Reached) -> None:
        """Somebody stands at a point. Cases that were just born have theirs armed before anybody is told of them."""
        where = (reached.case, reached.point, reached.seq)
        self.times[where] += 1
        member = self.members[reached.case]
        visit = Visit(
            point=reached.point,
            seq=reached.seq,
            nth=self.times[where],
            in_main=reached.pid == self.stage.crew.pid,
            place=member.place,
            workflow=member.workflow,
            thread_id=member.thread_id.replace(self.root, NAMED),
        )
        self.visits.append(visit)
        if reached.point == "born":
            self._add_born(reached.case)
        self.arm(reached.case, reached.seq + AHEAD)
        self.stage.points.let_go(reached, again=True)

    def _add_born(self, parent: UUID) -> None:
        above = self.members[parent].place
        for row in self.stage.db.all(_BORN, {"parent": parent, "each": EACH_END}):
            if row.id not in self.members:
                place = f"{above}#{row.parent_seq}[{row.branch}]"
                self.add(row.id, _Member(place, row.workflow, row.thread_id))


def given(state: State, thread_id: str) -> Mapping[str, Any] | BaseModel:
    """The state for one case."""
    return state(thread_id) if callable(state) else state


def record(stage: Stage, state: State, thread_id: str) -> list[Visit]:
    """Run one case, and let it and its branches stand for a moment at every point that they come by."""
    recorder = _Recorder(stage, thread_id)
    name = stage.workflow.name
    recorder.add(case_id(name, thread_id), _Member("", name, thread_id))
    stage.client.start(stage.workflow, thread_id, given(state, thread_id))
    end = stage.begin()
    alive = True
    while alive:
        alive = stage.tick(end)
        until = time.monotonic() + (QUIET if alive else LAST)
        while time.monotonic() < until:
            for reached in stage.points.reached():
                recorder.note(reached)
                until = time.monotonic() + (QUIET if alive else LAST)
            time.sleep(EVERY)
    stage.points.clear()
    return recorder.visits


def chosen(visits: Sequence[Visit], clean: Lived) -> list[Visit]:
    """Those of the case itself, and of its branches: of those that went the same way, the last one's.

    A child whose thread id isn't made of the case's own can't be told among the others', and is left alone.
    """
    alike: dict[object, str] = {}
    for place, branch in clean.branches.items():
        if any(visit.place == place and NAMED in visit.thread_id for visit in visits):
            alike[re.sub(r"\[\d+\]", "", place), branch.workflow, branch.status, branch.path] = place
    wanted = {"", *alike.values()}
    return [visit for visit in visits if visit.place in wanted]
