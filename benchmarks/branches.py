"""Branches of one case beside as many separate cases; and the length of a loop."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from benchmarks import fanning
from benchmarks.load import PATIENCE
from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from tests.support.eventually import eventually

LOADS = ("separate", "branches", "window")
"""Separate cases of one step; branches of one case; branches of which a hundred are unfinished at a time."""
SIZES = (250, 1000, 4000, 10_000)
LOOP = 2000
WINDOW = 100

_OVER = "select count(*) from keepstep.cases where workflow = %s and status = 'completed'"
_ENDED = "select count(*) from keepstep.cases where thread_id = %s and status is not null"
_BLOCKED = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
_TURNS = """
select extract(epoch from at - lag(at) over (order by seq))::float8 from keepstep.checkpoints c
  join keepstep.cases k on k.id = c.case_id where k.thread_id = %s order by seq offset 1"""


@dataclass(frozen=True, kw_only=True)
class Branches:
    """per_s: steps a second, from the first case's start to the end of the last; of branches, the parent's included.

    blocked: sessions that wait for a lock, on average.
    """

    crew: Crew
    kind: str
    count: int
    per_s: float
    blocked: float


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Milliseconds of a turn, medians: of the first hundred, and of the last. max_visits: of its step."""

    crew: Crew
    steps: int
    max_visits: int | None
    first_ms: float
    last_ms: float


def measure(shape: Shape, pool: str, kind: str, count: int) -> Branches:
    """Servers and workers of its own."""
    crew = Crew.of(pool, shape)
    blocked: list[float] = []

    def over(statement: str, name: str, enough: int) -> bool:
        blocked.append(built.number(_BLOCKED))
        return built.number(statement, name) >= enough

    with rig(workflows=fanning.ALL, module="benchmarks.fanning", env=quiet(shape)) as built:
        crew.start(built)
        _warm(built)
        began = time.perf_counter()
        if kind == "separate":
            built.client.start_many("alone", {f"S{n}": {"item": n} for n in range(count)})
            eventually(lambda: over(_OVER, "alone", count), PATIENCE, every=0.02)
        else:
            window = WINDOW if kind == "window" else count
            built.client.start("fanning", "F", {"count": count, "window": window})
            eventually(lambda: over(_ENDED, "F", 1), PATIENCE, every=0.02)
        took = time.perf_counter() - began
    return Branches(crew=crew, kind=kind, count=count, per_s=count / took, blocked=statistics.mean(blocked))


def loop(shape: Shape, pool: str, max_visits: int | None) -> Loop:
    """One case that goes round and round."""
    crew = Crew.of(pool, shape)
    with rig(workflows=fanning.ALL, module="benchmarks.fanning", env=quiet(shape)) as built:
        crew.start(built)
        _warm(built)
        for thread_id in ("V", "L"):  # the first lets every process prepare its statements
            built.client.start(fanning.LOOPS[max_visits], thread_id, {"to": LOOP})
            eventually(lambda which=thread_id: built.number(_ENDED, which), PATIENCE, every=0.1)
        turns = [float(row[0]) * 1000 for row in built.sql.execute(_TURNS, ("L",)).fetchall()]
    first, last = statistics.median(turns[:100]), statistics.median(turns[-100:])
    return Loop(crew=crew, steps=LOOP, max_visits=max_visits, first_ms=first, last_ms=last)


def _warm(built: Rig) -> None:
    """Let every process of the pools prepare its statements."""
    built.client.start_many("warm", {f"W{n}": {"item": n} for n in range(50)})
    built.client.start("fanning", "W", {"count": 20, "window": 20})
    eventually(lambda: built.number(_OVER, "warm") >= 50, PATIENCE)
    eventually(lambda: built.number(_ENDED, "W"), PATIENCE)
