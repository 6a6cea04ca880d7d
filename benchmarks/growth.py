"""How a step's cost grows with the number of cases, their length, the size of their state, and the workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks import work
from benchmarks.load import Load
from benchmarks.rig import rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from benchmarks.usage import Cpu

_WAL = "select pg_current_wal_lsn() - '0/0'::pg_lsn"
_STORED = """
select pg_total_relation_size('keepstep.checkpoints') + pg_total_relation_size('keepstep.heads')
     + pg_total_relation_size('keepstep.cases')"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """Of a load: cases at once, steps of each, KiB of state, workers."""

    cases: int = 100
    steps: int = 40
    kib: int = 1
    workers: int = 2

    def __str__(self) -> str:
        return f"{self.cases} cases of {self.steps} steps, {self.kib} KiB, {self.workers} workers"


BASE = Size()
SIZES = (
    BASE,
    replace(BASE, cases=25),
    replace(BASE, cases=400),
    replace(BASE, cases=10, steps=400),
    replace(BASE, cases=4, steps=1000),
    replace(BASE, cases=40, kib=10),
    replace(BASE, cases=20, kib=50),
    replace(BASE, workers=1),
    replace(BASE, workers=4),
)
"""The base, and what differs from it in one respect; so many cases that each takes about as long."""


@dataclass(frozen=True, kw_only=True)
class Growth:
    """cpu: seconds for 1,000 steps, of all processes. The bytes are of a step."""

    crew: Crew
    size: Size
    per_s: float
    cpu: float
    wal_bytes: float
    stored_bytes: float


def measure(shape: Shape, pool: str, size: Size) -> Growth:
    """Servers and workers of its own."""
    crew, steps = replace(Crew.of(pool, shape), workers=size.workers), size.cases * size.steps
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        crew.start(built)
        load = Load(built=built, steps=size.steps, state_bytes=size.kib * 1024)
        before, wal, stored = Cpu.of(built), built.number(_WAL), built.number(_STORED)
        took = load.at_once(size.cases)
        cpu = Cpu.of(built).per_1000(before, steps).total
        wal, stored = built.number(_WAL) - wal, built.number(_STORED) - stored
    return Growth(
        crew=crew,
        size=size,
        per_s=steps / took,
        cpu=cpu,
        wal_bytes=wal / steps,
        stored_bytes=stored / steps,
    )
