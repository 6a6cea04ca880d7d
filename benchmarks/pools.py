"""`python -m benchmarks.pools`: which pool for which steps, and what PgBouncer changes. For docs/scaling.md."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks import pool_flow
from benchmarks.load import percentile
from benchmarks.rig import Rig, rig
from benchmarks.usage import memory
from tests.support.eventually import eventually
from tests.support.pgbouncer import Pooler, binary

CREWS = (("prefork", 2), ("prefork", 8), ("threads", 2), ("threads", 16), ("threads", 64))
KINDS = {"computes 20 ms": (20, True), "waits 100 ms": (100, False)}

_WAITS = """
select extract(epoch from c.started_at - p.at)::float8 from keepstep.checkpoints c
  join keepstep.checkpoints p on p.case_id = c.case_id and p.seq = c.seq - 1
 where c.kind = 'step' order by 1"""
_CONNECTIONS = "select count(*) from pg_stat_activity where application_name like %s"


@dataclass(frozen=True, kw_only=True)
class Figure:
    """steps_s: steps a second. queued_ms: from publish to claim, the median. connections: to PostgreSQL."""

    steps_s: float
    queued_ms: float
    connections: int
    mib: float


def measure(built: Rig, kind: str, cases: int, pooler: str = "keepstep%") -> Figure:
    """Start them at once, and wait for the last."""
    milliseconds, computes = KINDS[kind]
    given = {"milliseconds": milliseconds, "computes": computes}
    began = time.perf_counter()
    built.client.start_many("pools", {f"P{number}": given for number in range(cases)})
    done = "select count(*) from keepstep.cases where status = 'completed'"
    eventually(lambda: built.number(done) > cases / 2, 300, every=0.02)
    connections, mib = int(built.number(_CONNECTIONS, pooler)), memory(built)
    eventually(lambda: built.number(done) >= cases, 300, every=0.02)
    took = time.perf_counter() - began
    waits = [float(row[0]) for row in built.sql.execute(_WAITS).fetchall()]
    steps = cases * pool_flow.STEPS
    return Figure(steps_s=steps / took, queued_ms=1000 * percentile(waits, 0.5), connections=connections, mib=mib)


def pools(kind: str, pool: str, concurrency: int, cases: int) -> Figure:
    """One worker of this pool."""
    with rig(workflows=pool_flow.ALL, module="benchmarks.pool_flow") as built:
        built.worker(pool=pool, concurrency=concurrency)
        return measure(built, kind, cases)


def through_pgbouncer(kind: str, workers: int, concurrency: int, cases: int, *, pooled: bool) -> Figure:
    """Several prefork workers, directly or through PgBouncer with ten connections."""
    with rig(workflows=pool_flow.ALL, module="benchmarks.pool_flow") as built, tempfile.TemporaryDirectory() as home:
        env, pooler = {}, None
        if pooled:
            pooler = Pooler(built.database_url, Path(home), server_connections=10)
            env = {
                "KEEPSTEP_DATABASE_URL": pooler.url,
                "KEEPSTEP_HEARTBEAT_URL": built.database_url,
                "KEEPSTEP_PREPARED_STATEMENTS": "false",
            }
        for _ in range(workers):
            built.worker(pool="prefork", concurrency=concurrency, env=env)
        try:
            return measure(built, kind, cases)
        finally:
            if pooler is not None:
                for worker in built.workers:
                    worker.kill()
                pooler.stop()


@click.command()
@click.option("--cases", default=60, show_default=True, help="of ten steps each")
def main(cases: int) -> None:
    """Measure, and print the tables."""
    print(
        f"{os.cpu_count()} cores; the servers run on them too. {cases} cases of {pool_flow.STEPS} steps, one worker.\n"
    )
    print(
        "| a step | pool | at once | steps/s | queued, median ms | connections | MiB |\n|---|---|---|---|---|---|---|"
    )
    for kind in KINDS:
        for pool, concurrency in CREWS:
            it = pools(kind, pool, concurrency, cases)
            print(f"| {kind} | {pool} | {concurrency} | {it.steps_s:.0f} | {it.queued_ms:.0f} | {it.connections} | "
                  f"{it.mib:.0f} |", flush=True)  # fmt: skip
    if binary() is None:
        print("\nPgBouncer is not installed.")
        return
    print("\n| 4 prefork workers, 4 at once each | steps/s | connections to PostgreSQL |\n|---|---|---|")
    for pooled in (False, True):
        it = through_pgbouncer("waits 100 ms", 4, 4, cases, pooled=pooled)
        print(f"| {'through PgBouncer' if pooled else 'directly'} | {it.steps_s:.0f} | {it.connections} |", flush=True)


if __name__ == "__main__":
    main()
