"""Steps per second with many cases at once, and milliseconds a step of a lone case. 1 KiB of state, 40 steps."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.rig import rig
from keepstep import Client
from tests.support.eventually import eventually

STEPS = 40
STATE_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class Speed:
    """steps_per_s: all cases at once. ms_per_step: one case alone, the median of its peers. pool: as started."""

    pool: str
    workers: int
    concurrency: int
    steps_per_s: float
    ms_per_step: float


def measure(*, cases: int, pool: str = "prefork", workers: int = 2, concurrency: int = 2) -> Speed:
    """Run the cases all at once, then ten of them one after the other."""
    with rig() as built:
        for _ in range(workers):
            built.worker(pool=pool, concurrency=concurrency, env={"KEEPSTEP_EVENTS": "false"})
        blob = "x" * STATE_BYTES
        built.client.start("forty", "warm", {"blob": blob})
        built.client.wait("forty", "warm", 60)
        began = time.perf_counter()
        for i in range(cases):
            built.client.start("forty", f"T{i}", {"blob": blob})
        eventually(lambda: built.client.counts("forty").get("completed", 0) == cases + 1, 600, every=0.05)
        per_s = cases * STEPS / (time.perf_counter() - began)
        alone = sorted(_alone(built.client, f"L{i}", blob) for i in range(10))[5]
    return Speed(
        pool=pool,
        workers=workers,
        concurrency=concurrency,
        steps_per_s=round(per_s, 1),
        ms_per_step=round(alone * 1000 / STEPS, 2),
    )


def _alone(client: Client, thread_id: str, blob: str) -> float:
    began = time.perf_counter()
    client.start("forty", thread_id, {"blob": blob})
    eventually(lambda: client.get("forty", thread_id).ended, 60, every=0.002)
    return time.perf_counter() - began
