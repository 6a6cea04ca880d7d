"""Cases for a rig, in the three ways in which they come: all at once, at a fixed rate, and one alone."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass
from itertools import count

from benchmarks.rig import Rig
from tests.support.eventually import eventually

STATE_BYTES = 1024
PATIENCE = 300.0
"""Seconds after which a measurement is given up."""

_COMPLETED = "select count(*) from keepstep.cases where status = 'completed'"
_ENDED = "select count(*) from keepstep.cases where thread_id = %s and status is not null"

# From the commit that made a step the next one to the moment at which its code is called.
_WAITS = """
select extract(epoch from c.started_at - p.at)::float8 from keepstep.checkpoints c
  join keepstep.checkpoints p on p.case_id = c.case_id and p.seq = c.seq - 1
  join keepstep.cases k on k.id = c.case_id
 where c.kind = 'step' and k.thread_id like %s order by 1"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """Cases of so many steps, each of which waits so long."""

    built: Rig
    steps: int
    seconds: float = 0.0
    workflow: str = "work"
    state_bytes: int = STATE_BYTES
    names = count()

    def start(self, prefix: str = "C", *, seconds: float | None = None, **terms: object) -> str:
        """Start one; its thread id begins with the prefix."""
        thread_id = f"{prefix}{next(self.names)}"
        wait = self.seconds if seconds is None else seconds
        self.built.client.start(self.workflow, thread_id, self._state(wait), **terms)  # type: ignore[arg-type]
        return thread_id

    def _state(self, wait: float) -> dict[str, object]:
        return {"steps": self.steps, "seconds": wait, "blob": self._blob()}

    def _blob(self) -> str:
        """Text that no database compresses away."""
        return base64.b64encode(os.urandom(self.state_bytes)).decode()[: self.state_bytes]

    def completed(self) -> int:
        return int(self.built.number(_COMPLETED))

    def at_once(self, cases: int) -> float:
        """Start them all; seconds until the last one is over."""
        goal, began = self.completed() + cases, time.perf_counter()
        for _ in range(cases):
            self.start()
        self.until(goal)
        return time.perf_counter() - began

    def in_one_go(self, cases: int) -> float:
        """The same with one `start_many`, so that the starts hardly count."""
        states = {f"M{next(self.names)}": self._state(self.seconds) for _ in range(cases)}
        goal, began = self.completed() + cases, time.perf_counter()
        self.built.client.start_many(self.workflow, states)
        self.until(goal)
        return time.perf_counter() - began

    def at_rate(self, per_s: float, cases: int) -> list[float]:
        """Start them at fixed intervals; how long each step was in the queue, in seconds, sorted."""
        goal, began = self.completed() + cases, time.perf_counter()
        for number in range(cases):
            time.sleep(max(0.0, began + number / per_s - time.perf_counter()))
            self.start("O")
        self.until(goal)
        return [float(row[0]) for row in self.built.sql.execute(_WAITS, ("O%",)).fetchall()]

    def alone(self) -> float:
        """Run one; seconds from its start to the moment at which its end is seen."""
        began = time.perf_counter()
        thread_id = self.start("L")
        eventually(lambda: self.built.number(_ENDED, thread_id), PATIENCE, every=0.002)
        return time.perf_counter() - began

    def until(self, goal: int) -> None:
        """Wait until so many cases are completed."""
        eventually(lambda: self.completed() >= goal, PATIENCE, f"{goal} cases are completed", every=0.05)

    def until_named(self, prefix: str, cases: int) -> None:
        """Wait until so many of the cases of this prefix are completed."""
        over = f"{_COMPLETED} and thread_id like %s"
        eventually(lambda: self.built.number(over, f"{prefix}%") >= cases, PATIENCE, every=0.05)


def percentile(sorted_values: list[float], fraction: float) -> float:
    """Of values in order; the nearest one."""
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * fraction))]
