"""What the processes of a measurement use: CPU seconds by kind of process, and the workers' memory."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass
from typing import Self

import psutil

from benchmarks.rig import Rig


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """CPU seconds. main: the workers' main processes. pool: their children. The servers' include ended processes."""

    client: float
    main: float
    pool: float
    redis: float
    postgres: float

    @classmethod
    def of(cls, built: Rig) -> Self:
        """So much until now."""
        servers = built.servers
        return cls(
            client=_own(psutil.Process(os.getpid())),
            main=sum(_own(psutil.Process(worker.pid)) for worker in built.workers),
            pool=sum(_below(psutil.Process(worker.pid)) for worker in built.workers),
            redis=_own(psutil.Process(servers.valkey.pid)),
            postgres=_own(psutil.Process(servers.postgres.pid)) + _below(psutil.Process(servers.postgres.pid)),
        )

    def per_1000(self, before: Cpu, steps: int) -> Cpu:
        """Since then, for a thousand steps."""
        return Cpu(**{name: 1000 * (value - getattr(before, name)) / steps for name, value in vars(self).items()})

    @property
    def total(self) -> float:
        return float(sum(vars(self).values()))


def memory(built: Rig) -> float:
    """MiB of a worker, main process and pool, with shared pages counted once (the median of the workers)."""
    each = [sum(float(process.memory_full_info().pss) for process in worker.tree()) for worker in built.workers]
    return statistics.median(each) / 2**20


def _own(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _below(process: psutil.Process) -> float:
    """Of its descendants, those included that have ended."""
    times = process.cpu_times()
    gone: float = float(times.children_user + times.children_system)
    for child in process.children(recursive=True):
        try:
            at = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        gone += float(at.user + at.system + at.children_user + at.children_system)
    return gone
