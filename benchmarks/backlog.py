"""A backlog of cases that nobody works off yet: does it slow those that are worked on?"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from benchmarks import work
from benchmarks.load import STATE_BYTES, Load
from benchmarks.rig import rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet

LOADS = 5

ELSEWHERE = "nobody"
"""A queue that no worker takes from."""


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """stored_per_s: cases that `start_many` stores and rings for. before, behind: steps a second, without and with, the
    medians of five loads each.
    """

    crew: Crew
    cases: int
    stored_per_s: float
    before: float
    behind: float


def measure(shape: Shape, pool: str, *, backlog: int = 100_000, cases: int = 200) -> Backlog:
    """The same loads without and beside the backlog. Mind that 100,000 cases take a while to be stored."""
    crew, steps = Crew.of(pool, shape), 40
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=steps)
        load.at_once(cases)  # the workers' first steps are slow
        before = [cases * steps / load.at_once(cases) for _ in range(LOADS)]
        state = {"blob": "x" * STATE_BYTES}
        began = time.perf_counter()
        built.client.start_many("work", ((f"B{n}", state) for n in range(backlog)), queue=ELSEWHERE)
        stored = backlog / (time.perf_counter() - began)
        built.sql.execute("vacuum analyze")  # what autovacuum would do in the middle of the next load
        behind = [cases * steps / load.at_once(cases) for _ in range(LOADS)]
    return Backlog(
        crew=crew,
        cases=backlog,
        stored_per_s=stored,
        before=statistics.median(before),
        behind=statistics.median(behind),
    )
