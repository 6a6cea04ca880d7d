"""What autovacuum's settings for `heads` are worth: beside 100,000 waiting cases, while others come, run and go.

Autovacuum looks every five seconds here instead of every minute, so that a minute of load shows what twelve would.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from benchmarks import work
from benchmarks.load import Load
from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from keepstep.checkpoint.sql import sweep
from tests.support.crowd import crowd

WAITING, CASES, STEPS, SECONDS = 100_000, 300, 40, 60.0

KINDS = {
    "PostgreSQL's own": "",
    "after 5,000 rows": "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000",
    "after 5,000 rows, without delay": "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, "
    "autovacuum_vacuum_cost_delay = 0",
    "none": "autovacuum_enabled = off",
}

_SEEN = """
select pg_relation_size('keepstep.heads') / 1048576.0, pg_relation_size('keepstep.heads_due') / 1048576.0,
       100.0 * n_tup_hot_upd / greatest(n_tup_upd, 1), n_dead_tup, autovacuum_count
  from pg_stat_user_tables where relid = 'keepstep.heads'::regclass"""


@dataclass(frozen=True, kw_only=True)
class Vacuum:
    """first, last: steps a second, in the first and the last third of the time. look_ms: a look of the sweep at what is
    due, at the end, the median of twenty. heads, due: MiB of the table and of its index. hot: per cent of its updates.
    """

    kind: str
    first: float
    last: float
    look_ms: float
    heads: float
    due: float
    hot: float
    dead: float
    vacuums: float


def measure(shape: Shape, kind: str) -> Vacuum:
    """On servers of its own."""
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built:
        if KINDS[kind]:
            built.sql.execute(f"alter table keepstep.heads set ({KINDS[kind]})")
        built.sql.execute("alter system set autovacuum_naptime = '5s'")
        built.sql.execute("select pg_reload_conf()")
        crowd(built.db, WAITING, workflow="elsewhere")
        Crew.of("prefork", shape).start(built)
        load = Load(built=built, steps=STEPS)
        load.at_once(CASES)
        speeds, end = list[float](), time.monotonic() + SECONDS
        while time.monotonic() < end:
            speeds.append(CASES * STEPS / load.at_once(CASES))
        look = _look_ms(built)
        seen = built.sql.execute(_SEEN).fetchone()
    assert seen is not None
    third = max(1, len(speeds) // 3)
    heads, due, hot, dead, vacuums = (float(value) for value in seen)
    return Vacuum(
        kind=kind,
        first=statistics.median(speeds[:third]),
        last=statistics.median(speeds[-third:]),
        look_ms=look,
        heads=heads,
        due=due,
        hot=hot,
        dead=dead,
        vacuums=vacuums,
    )


def _look_ms(built: Rig) -> float:
    took = list[float]()
    for _ in range(20):
        began = time.perf_counter()
        built.db.all(sweep.WAKE, {"limit": 10})
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)
