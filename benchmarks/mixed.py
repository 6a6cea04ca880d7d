"""Quick cases among slow ones: when are the quick ones over? What batches and inline steps must not make worse."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import work
from benchmarks.load import Load, percentile
from benchmarks.rig import rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet

CASES, STEPS = 200, 40
MIXES = {"none": (0, 0.0), "15 of 50 ms a step": (15, 0.05), "3 of 2 s a step": (3, 2.0)}
"""Slow cases among the others, and how long each of their steps waits."""

_FINISHED = """
select extract(epoch from finished_at - (select min(created_at) from keepstep.cases where thread_id ~ '^[QS]'))::float8
  from keepstep.cases where thread_id like 'Q%' order by 1"""


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Seconds from the first start: the median quick case, and the last one."""

    crew: Crew
    slow: str
    median_s: float
    last_s: float


def measure(shape: Shape, pool: str, mix: str) -> Mixed:
    """All cases at once, the slow ones spread among the quick. The slow ones are not waited for."""
    crew = Crew.of(pool, shape)
    slow, seconds = MIXES[mix]
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=STEPS)
        every = CASES // slow if slow else CASES + 1
        quick = [n for n in range(1, CASES + 1) if n % every]
        for number in range(1, CASES + 1):
            load.start("Q" if number % every else "S", seconds=0.0 if number % every else seconds)
        load.until_named("Q", len(quick))
        finished = [float(row[0]) for row in built.sql.execute(_FINISHED).fetchall()]
    return Mixed(crew=crew, slow=mix, median_s=percentile(finished, 0.5), last_s=finished[-1])
