"""keepstep in the peers' harness: the same command line and the same JSON line, so that all are measured in one run.

`PEERS=folder python -m benchmarks.peer --mode latency|throughput|recovery ...`. Real `keepstep worker` processes and
the real client; like the peers' workers they log warnings only and send no events. `--env NAME=VALUE` sets anything
else, `--pool` the pool, `--shape` names the setting in the result. The end of a case is looked for in the database, as
the harness does for the peers that have no cheaper way.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import redis

from benchmarks.peer_flow import ARGUMENTS, harness, workflow
from keepstep import Client, Workflow
from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import nodes
from keepstep.config.settings import export_settings, postgres_url

ROOT = Path(__file__).parents[1]
BROKER = 3
"""The number of the Redis database; the peers have 0 to 2."""
WARM = 4
_COMPLETED = "select count(*) from keepstep.cases where status = 'completed'"


class Peer:
    """Servers made fresh, a client, and workers."""

    def __init__(self, arguments: argparse.Namespace, common: Any, pool: str):
        self.arguments, self.common, self._pool = arguments, common, pool
        self.broker = redis.Redis.from_url(f"{arguments.redis}/{BROKER}")
        self.broker.flushdb()
        self.pg, self.scratch = common.Pg(arguments, "keepstep"), common.Scratch()
        self._exported()
        self.db, self._sql = Database(postgres_url(self.pg.url)), psycopg.connect(self.pg.url, autocommit=True)
        schema.upgrade(self.db)
        self.workflow: Workflow = workflow(arguments, common)
        self.client = Client(workflows=[self.workflow])
        self.workers: list[subprocess.Popen[bytes]] = []

    def _exported(self) -> None:
        """What the client and the workers read; of what isn't about servers and workflow, `--env` has the last word."""
        broker = f"{self.arguments.redis}/{BROKER}"
        export_settings(database_url=self.pg.url, broker_url=broker, workflows="benchmarks.peer_flow")
        os.environ.setdefault("KEEPSTEP_EVENTS", "false")
        os.environ.setdefault("KEEPSTEP_LOG_LEVEL", "WARNING")
        os.environ[ARGUMENTS] = json.dumps(vars(self.arguments))

    def worker(self) -> subprocess.Popen[bytes]:
        """Start a worker as an operator does; wait until its node is registered."""
        options = ["--pool", self._pool, "-c", str(self.arguments.concurrency)]
        with open(self.scratch.log, "ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "keepstep.cli.main", "worker", *options, "-n", f"w{time.time_ns()}@localhost"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.workers.append(process)
        end = time.monotonic() + 60
        while not any(row.process.startswith(f"{process.pid}:") for row in self.db.all(nodes.LIST)):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"no worker: {Path(self.scratch.log).read_text()[-2000:]}")
            time.sleep(0.01)
        return process

    def submit(self, number: int) -> None:
        self.client.start(self.workflow, f"P{number}", self.common.new_state(self.arguments, number))

    def completed(self, number: int, every: float) -> int:
        """Wait until so many cases are completed; how often was asked."""
        polls, end = 1, time.monotonic() + 280
        while (done := self._sql.execute(_COMPLETED).fetchone()) is None or done[0] < number:
            if time.monotonic() > end:
                raise SystemExit(f"stuck: {self.client.counts('peer')} {Path(self.scratch.log).read_text()[-2000:]}")
            time.sleep(every)
            polls += 1
        return polls

    def checked(self, number: int) -> dict[str, Any]:
        """The state of a finished case, which must be right."""
        state: dict[str, Any] = self.common.check(self.arguments, self.client.state("peer", f"P{number}"))
        return state

    def close(self) -> None:
        for process in self.workers:
            self.common.stop(process, 2)
        self._sql.close()
        self.client.close()
        self.db.dispose()


def latency(peer: Peer, meter: Any) -> dict[str, Any]:
    """One case after the other."""
    arguments, totals = peer.arguments, []
    meter.before()
    for number in range(arguments.cases):
        began = time.perf_counter()
        peer.submit(number)
        peer.completed(WARM + number + 1, arguments.poll or 0.002)
        totals.append(time.perf_counter() - began)
    meter.stop()
    states = [peer.checked(number) for number in range(arguments.cases)]
    return {**peer.common.timing(arguments, totals, states), **meter.after(arguments.cases * arguments.steps)}


def throughput(peer: Peer, meter: Any) -> dict[str, Any]:
    """All cases at once."""
    arguments = peer.arguments
    meter.before()
    for number in range(arguments.cases):
        peer.submit(number)
    submitted = time.perf_counter() - meter.t0
    polls = peer.completed(WARM + arguments.cases, arguments.poll or 0.05)
    meter.stop()
    for number in range(arguments.cases):
        peer.checked(number)
    steps = arguments.cases * arguments.steps
    speed = {"steps_per_s": round(steps / meter.wall, 1), "submit_s": round(submitted, 2)}
    return {**speed, **meter.after(steps, polls)}


def measured(peer: Peer) -> dict[str, Any]:
    """Start the workers, warm them up, and measure."""
    arguments, common = peer.arguments, peer.common
    workers = [peer.worker() for _ in range(1 if arguments.mode == "latency" else arguments.workers)]
    for number in range(WARM):
        peer.submit(10**6 + number)
    peer.completed(WARM, 0.05)
    meter = common.Meter(arguments, peer.pg, workers, {"redis": peer.broker.info()["process_id"]})
    return latency(peer, meter) if arguments.mode == "latency" else throughput(peer, meter)


def main() -> None:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--env", action="append", default=[], help="NAME=VALUE for the client and the workers")
    own.add_argument("--pool", default="prefork", choices=["prefork", "threads", "solo"])
    given, rest = own.parse_known_args()
    sys.argv[1:] = rest
    for setting in given.env:
        name, _, value = setting.partition("=")
        os.environ[name] = value
    common = harness()
    arguments = common.parse(workers=2, concurrency=2, shape=given.pool)
    peer = Peer(arguments, common, given.pool)
    try:
        if arguments.mode == "recovery":
            figures = common.recover(arguments, peer.scratch, peer.worker, lambda: peer.submit(0))
        else:
            figures = measured(peer)
    finally:
        peer.close()
    versions = common.version("keepstep", "celery", "kombu", "redis", "psycopg2-binary", "SQLAlchemy")
    errors = Path(peer.scratch.log).read_text().count("Traceback")
    common.report("keepstep", arguments, versions, **figures, env=given.env, errors=errors)


if __name__ == "__main__":
    main()
