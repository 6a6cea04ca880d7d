"""How long a case stands still after a death: from the kill to the moment at which the step's code runs again."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.rig import Rig, rig
from keepstep.checkpoint.sql import nodes
from tests.support.eventually import eventually
from tests.support.worker import Worker

SLOW = 2.0
"""Seconds that the slow step takes once it runs again."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """seconds: one a run. bound: what promise P3 says."""

    name: str
    bound: float
    seconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def measure(runs: int) -> Iterator[Figure]:
    """The four deaths of promise P3, each on servers and workers of its own."""
    scenarios: list[tuple[str, float, Callable[[Rig, int], list[float]]]] = [
        ("pool child killed", 0.5, child_killed),
        ("worker tree killed and started again, after the new one is up", 0.5, tree_restarted),
        ("worker tree killed for good, another node on this host", 4.0, tree_gone_same_host),
        ("worker tree killed for good, another node elsewhere", 4.0, tree_gone_elsewhere),
        ("machine frozen with its sockets open (lease 10 s)", 12.0, machine_frozen),
    ]
    for name, bound, scenario in scenarios:
        with rig() as built:
            yield Figure(name=name, bound=bound, seconds=scenario(built, runs))


def child_killed(built: Rig, runs: int) -> list[float]:
    built.worker()
    return [_after(built, run, lambda pid: os.kill(pid, signal.SIGKILL)) for run in range(runs)]


def tree_restarted(built: Rig, runs: int) -> list[float]:
    worker, figures = built.worker(), []
    for run in range(runs):
        _begin(built, f"R{run}")
        worker.kill()
        worker = built.worker()
        up = next(row.started_at for row in built.db.all(nodes.LIST) if row.process.startswith(f"{worker.pid}:"))
        figures.append(_ran_again(built, f"R{run}") - up.timestamp())
        built.client.wait("ten", f"R{run}", 60)
    return figures


def tree_gone_same_host(built: Rig, runs: int) -> list[float]:
    return _tree_gone(built, runs, {})


def tree_gone_elsewhere(built: Rig, runs: int) -> list[float]:
    return _tree_gone(built, runs, {"KEEPSTEP_HOST_ID": "elsewhere"})


def _tree_gone(built: Rig, runs: int, elsewhere: dict[str, str]) -> list[float]:
    built.worker(env={**elsewhere, "KEEPSTEP_LEASE_SECONDS": "10"})
    _settled(built)
    return [_doomed(built, run, Worker.kill) for run in range(runs)]


def machine_frozen(built: Rig, runs: int) -> list[float]:
    built.worker(env={"KEEPSTEP_HOST_ID": "elsewhere"})
    _settled(built)
    return [_doomed(built, run, Worker.freeze) for run in range(runs)]


def _doomed(built: Rig, run: int, end: Callable[[Worker], None]) -> float:
    """Start a second worker, wait until it is the one that runs a slow step, and end it."""
    doomed = built.worker()
    for attempt in range(100):
        thread_id = f"R{run}.{attempt}"
        pid = _begin(built, thread_id)
        if pid in [process.pid for process in doomed.tree()]:
            break
        built.client.wait("ten", thread_id, 60)
    killed = time.time()
    end(doomed)
    seconds = _ran_again(built, thread_id) - killed
    built.client.wait("ten", thread_id, 60)
    doomed.thaw()
    doomed.kill()
    return seconds


def _after(built: Rig, run: int, kill: Callable[[int], None]) -> float:
    pid = _begin(built, f"R{run}")
    killed = time.time()
    kill(pid)
    seconds = _ran_again(built, f"R{run}") - killed
    built.client.wait("ten", f"R{run}", 60)
    return seconds


def _begin(built: Rig, thread_id: str) -> int:
    """Start a case and wait until it is in its slow step; the process that runs it."""
    built.client.start("ten", thread_id, {"seconds": SLOW})
    return eventually(lambda: built.trace.lines(thread_id, "s5"), 60)[0].pid


def _ran_again(built: Rig, thread_id: str) -> float:
    return eventually(lambda: len(lines := built.trace.lines(thread_id, "s5")) > 1 and lines[1].at, 60, every=0.005)


def _settled(built: Rig) -> None:
    """A judge that has just begun, or lost the database, is slower on purpose: wait until that is over."""
    time.sleep(built.client.settings.lease_seconds + 1)
