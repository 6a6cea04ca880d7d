"""Throughput, latency, queue wait, CPU and memory of one pool with one kind of step."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Self

from benchmarks import work
from benchmarks.load import Load, percentile
from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from benchmarks.usage import Cpu, memory

CONCURRENCY = {"prefork": 2, "threads": 16, "solo": 1}
"""Steps at once in a worker: a process each, threads that mostly wait, one."""
STEPS = {0: 40, 20: 20}
"""Steps of a case by the milliseconds that each waits; else ten."""
SECONDS = 5.0
"""For which the closed and the open loop run, as far as steps that wait let it be foreseen."""


@dataclass(frozen=True, kw_only=True)
class Crew:
    """The workers of a measurement."""

    pool: str
    workers: int = 2
    concurrency: int

    @classmethod
    def of(cls, pool: str, shape: Shape) -> Self:
        options = shape.options
        concurrency = int(options.get("concurrency", CONCURRENCY[pool]))
        return cls(pool=pool, workers=int(options.get("workers", 2)), concurrency=concurrency)

    def start(self, built: Rig, **more: object) -> None:
        """Start them, and let each process run something."""
        for _ in range(self.workers):
            built.worker(pool=self.pool, concurrency=self.concurrency, **more)  # type: ignore[arg-type]
        Load(built=built, steps=10).at_once(2 * self.workers * min(self.concurrency, 4))

    @property
    def at_once(self) -> int:
        return self.workers * self.concurrency

    def __str__(self) -> str:
        return f"{self.pool} {self.workers} × {self.concurrency}"


@dataclass(frozen=True, kw_only=True)
class Speed:
    """per_s: steps, all cases at once. ideal: of what the waiting alone would allow, 0 to 1; None if steps don't wait.

    lone_ms: a step of a case alone, its own waiting taken off. queued_ms, queued_p99_ms: of a step, at half of that
    throughput. cpu: seconds for 1,000 steps, all at once. mib: of a worker.
    """

    crew: Crew
    wait_ms: int
    per_s: float
    ideal: float | None
    lone_ms: float
    queued_ms: float
    queued_p99_ms: float
    cpu: Cpu
    mib: float


def measure(shape: Shape, pool: str, wait_ms: int, *, cases: int) -> Speed:
    """Servers and workers of its own. cases: at once, at the most."""
    crew, seconds, steps = Crew.of(pool, shape), wait_ms / 1000, STEPS.get(wait_ms, 10)
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=steps, seconds=seconds)
        lone = [load.alone() for _ in range(10 if wait_ms == 0 else 3)]
        many = cases if wait_ms == 0 else min(cases, max(2 * crew.at_once, _foreseen(crew, steps, seconds)))
        before = Cpu.of(built)
        per_s = many * steps / load.at_once(many)
        cpu, mib = Cpu.of(built).per_1000(before, many * steps), memory(built)
        rate = per_s / steps / 2
        queued = load.at_rate(rate, max(4, math.ceil(rate * SECONDS)))
    return Speed(
        crew=crew,
        wait_ms=wait_ms,
        per_s=per_s,
        ideal=per_s * seconds / crew.at_once if wait_ms else None,
        lone_ms=statistics.median(lone) * 1000 / steps - wait_ms,
        queued_ms=percentile(queued, 0.5) * 1000,
        queued_p99_ms=percentile(queued, 0.99) * 1000,
        cpu=cpu,
        mib=mib,
    )


def quiet(shape: Shape) -> dict[str, str]:
    """The shape's variables; task events are off unless it says otherwise."""
    return {"KEEPSTEP_EVENTS": "false", **shape.env}


def _foreseen(crew: Crew, steps: int, seconds: float) -> int:
    return math.ceil(SECONDS * crew.at_once / seconds / steps)
