"""The write points that one undisturbed case comes by, in order: all the places at which it can be killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from keepstep.steps.keys import case_id
from keepstep.testing.crash.stage import Stage
from keepstep.workers.failpoints import POINTS

State = Mapping[str, Any] | BaseModel | Callable[[str], Mapping[str, Any] | BaseModel]
"""What a case begins with, or a function of its thread id that says so."""

AHEAD = 25
"""Points are armed for so many checkpoints in advance: more than a group of waits writes in between."""
EVERY, QUIET, LAST = 0.003, 0.06, 0.25
"""Seconds between two looks; without a point before other things are looked after; and after the end of the case."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """A point that the case came by. seq: where its step starts from. nth: of this point at this seq, from 1 on.

    in_main: by the worker's main process, not by one of its pool.
    """

    point: str
    seq: int
    nth: int
    in_main: bool


def given(state: State, thread_id: str) -> Mapping[str, Any] | BaseModel:
    """The state for one case."""
    return state(thread_id) if callable(state) else state


def record(stage: Stage, state: State, thread_id: str) -> list[Visit]:
    """Run one case, and let it stand for a moment at every point that it comes by."""
    case, points = case_id(stage.workflow.name, thread_id), stage.points
    visits: list[Visit] = []
    times: Counter[tuple[str, int]] = Counter()
    armed = 0

    def arm(up_to: int) -> int:
        for seq in range(armed, up_to):
            for point in POINTS:
                points.arm(point, case, seq, "halt")
        return max(armed, up_to)

    armed = arm(AHEAD)
    stage.client.start(stage.workflow, thread_id, given(state, thread_id))
    end = stage.begin()
    alive = True
    while alive:
        alive = stage.tick(end)
        until = time.monotonic() + (QUIET if alive else LAST)
        while time.monotonic() < until:
            for reached in points.reached():
                times[reached.point, reached.seq] += 1
                nth = times[reached.point, reached.seq]
                in_main = reached.pid == stage.crew.pid
                visits.append(Visit(point=reached.point, seq=reached.seq, nth=nth, in_main=in_main))
                armed = arm(reached.seq + AHEAD)
                points.let_go(reached, again=True)
                until = time.monotonic() + (QUIET if alive else LAST)
            time.sleep(EVERY)
    points.clear()
    return visits
