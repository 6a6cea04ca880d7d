"""Thousands of cases that wait for their branches: what the sweep costs, and whether they slow the others."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks import work
from benchmarks.load import Load
from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from benchmarks.usage import Cpu
from tests.support.crowd import crowd_of_parents

PARENTS = 10_000
IDLE_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Parents:
    """alone, beside: percent of a core that idle workers and PostgreSQL use. before, after: steps a second."""

    crew: Crew
    parents: int
    alone: float
    beside: float
    before: float
    after: float


def measure(shape: Shape, pool: str, *, cases: int = 100, steps: int = 40) -> Parents:
    """The same load and the same idleness twice, the second time beside them; each waits for two branches that wait."""
    crew = Crew.of(pool, shape)
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=steps)
        before, alone = cases * steps / load.at_once(cases), _idle(built)
        crowd_of_parents(built.db, PARENTS)
        built.sql.execute("vacuum analyze")
        after, beside = cases * steps / load.at_once(cases), _idle(built)
    return Parents(crew=crew, parents=PARENTS, alone=alone, beside=beside, before=before, after=after)


def _idle(built: Rig) -> float:
    """Percent of a core."""
    cpu = Cpu.of(built)
    time.sleep(IDLE_SECONDS)
    now = Cpu.of(built)
    return 100 * (now.main + now.pool + now.postgres - cpu.main - cpu.pool - cpu.postgres) / IDLE_SECONDS
