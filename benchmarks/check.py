"""How long `keepstep check` takes, as a deploy's pipeline runs it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

from benchmarks.check_flow import STEPS, checked
from benchmarks.load import STATE_BYTES
from benchmarks.rig import ROOT, Rig, rig
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from tests.support.eventually import eventually

KINDS = {
    "just started": "queued at their first step",
    "in the middle": f"{STEPS} steps behind them, waiting for an approval",
    "items of one": "items of one fan-out, of which no branch has begun",
}
PATIENCE = 600.0


@dataclass(frozen=True, kw_only=True)
class Check:
    """kind: of what there are so many. seconds, upcast: of the command, with the code at hand and with a newer version.

    mib: the most memory that it took.
    """

    kind: str
    many: int
    seconds: float
    upcast: float
    mib: float


def measure(shape: Shape, pool: str, kind: str, *, many: int = 10_000) -> Check:
    """The command in a process of its own, start of Python included, beside nothing else."""
    with rig(workflows=[checked], module="benchmarks.check_flow", env=quiet(shape)) as built:
        _make(built, Crew.of(pool, shape), kind, many)
        built.sql.execute("vacuum analyze")
        seconds, mib = _run(built, 1)
        upcast, more = _run(built, 2)
    return Check(kind=kind, many=many, seconds=seconds, upcast=upcast, mib=max(mib, more))


def _make(built: Rig, crew: Crew, kind: str, many: int) -> None:
    blob = "x" * STATE_BYTES
    if kind == "items of one":
        built.client.start("checked", "C", {"blob": blob, "items": many})
    else:
        built.client.start_many("checked", ((f"C{n}", {"blob": blob}) for n in range(many)))
    if kind == "just started":
        return
    workers = [built.worker(pool=crew.pool, concurrency=crew.concurrency) for _ in range(crew.workers)]
    wanted = 2 if kind == "items of one" else many
    waiting = "select count(*) from keepstep.heads where status = 'waiting'"
    eventually(lambda: built.number(waiting) >= wanted, PATIENCE, f"{wanted} wait", every=0.5)
    for worker in workers:
        worker.stop()


def _run(built: Rig, version: int) -> tuple[float, float]:
    env = {**os.environ, "CHECKED_VERSION": str(version), "PYTHONPATH": str(ROOT)}
    command = ["--workflows", "benchmarks.check_flow", "check", "--against", built.database_url]
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "keepstep.cli.main", *command], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = process.stdout.read().decode()
    _, code, used = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(code) == 0, told
    return time.perf_counter() - began, used.ru_maxrss / 1024
