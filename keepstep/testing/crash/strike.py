"""Kills: one case for each visit, killed there; all of them at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from keepstep.steps.keys import case_id
from keepstep.testing.crash.path import EVERY, State, Visit, given
from keepstep.testing.crash.sameness import NAMED
from keepstep.testing.crash.stage import Stage

LATEST = 1.5
"""Seconds after the end of all cases that a process may still come by its last points."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One case that is killed at one visit."""

    visit: Visit
    thread_id: str


def strike(stage: Stage, cells: Sequence[Cell], state: State, others: Sequence[str] = ()) -> set[Cell]:
    """Run a case for each cell, and one for each of the other thread ids that nobody kills; which cells were killed.

    A cell isn't killed if its case never came by: the workflow took another way.
    """
    if not cells and not others:
        return set()
    where = {_at(stage, cell): cell for cell in cells}
    for (point, case, seq), cell in where.items():
        stage.points.arm(point, case, seq, "kill" if cell.visit.nth == 1 else "halt")
    ids = [*(cell.thread_id for cell in cells), *others]
    stage.client.start_many(stage.workflow, {thread_id: given(state, thread_id) for thread_id in ids})
    end = stage.begin()
    came: Counter[Cell] = Counter()
    killed: set[Cell] = set()

    def look() -> None:
        for reached in stage.points.reached():
            cell = where[reached.point, reached.case, reached.seq]
            came[cell] += cell not in killed and cell.visit.nth > 1
            if cell.visit.nth == 1 or came[cell] == cell.visit.nth:
                killed.add(cell)
            if cell.visit.nth > 1:
                if cell in killed:
                    stage.points.kill(reached)
                else:
                    stage.points.let_go(reached, again=True)

    while stage.tick(end):
        look()
    until = time.monotonic() + LATEST  # a case ends with its last commit, and its process comes by two more points
    while len(killed) < len(cells) and time.monotonic() < until:
        look()
        time.sleep(EVERY)
    stage.points.clear()
    return killed


def _at(stage: Stage, cell: Cell) -> tuple[str, UUID, int]:
    visit = cell.visit
    workflow, thread_id = visit.workflow or stage.workflow.name, visit.thread_id.replace(NAMED, cell.thread_id)
    return visit.point, case_id(workflow, thread_id), visit.seq
