"""What strikes, in which order and after which pauses, and when each case starts: all of it from one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from benchmarks.chaos.dice import dice

CHILD, TREE, FREEZE, DEPLOY = (
    "pool child killed",
    "worker tree killed",
    "worker frozen past its lease",
    "worker deployed",
)
FLUSH, BROKER = "broker flushed", "broker killed"
DATABASE = "database restarted (immediate)"
CUT, LOST, LINGER = "connections cut", "replies lost, then cut", "connections cut, the server unaware"

BAGS: Mapping[str, tuple[str, ...]] = {
    "worker": (CHILD, CHILD, CHILD, TREE, FREEZE, DEPLOY),
    "broker": (FLUSH, FLUSH, BROKER),
    "database": (DATABASE,),
    "connections": (CUT, LOST, LINGER),
}
"""What strikes a lane: each bag is emptied in a random order before the next one is begun."""

GAPS: Mapping[str, tuple[float, float]] = {
    "worker": (3.0, 0.4),
    "broker": (0.0, 1.2),
    "database": (0.0, 2.5),
    "connections": (0.0, 1.2),
}
"""Between two strikes of a lane, on average: seconds, and leases on top. A worker takes some seconds to start."""

FAULTS: Mapping[str, str] = {
    "child": CHILD,
    "tree": TREE,
    "freeze": FREEZE,
    "deploy": DEPLOY,
    "flush": FLUSH,
    "broker": BROKER,
    "database": DATABASE,
    "cut": CUT,
    "replies": LOST,
    "unaware": LINGER,
}
"""By the short names of the command line."""

NEEDED = 45.0
"""Seconds before the end after which no case starts, so that faults strike to the end, and not long after it."""


@dataclass(frozen=True, kw_only=True)
class Strike:
    """after: seconds since the one before was over. lasts: seconds, where it lasts. chance: for what else is open."""

    fault: str
    after: float
    lasts: float
    chance: Random


@dataclass(frozen=True, kw_only=True)
class Plan:
    """lease: seconds. faults: those that may strike. cases: thread id and second of its start."""

    seed: int
    seconds: float
    lease: float
    faults: frozenset[str]
    cases: tuple[tuple[float, str], ...]

    def strikes(self, lane: str) -> Iterator[Strike]:
        """The endless strikes of a lane, such as "worker 2"; none if no fault of its may strike."""
        kind = lane.partition(" ")[0]
        seconds, leases = GAPS[kind]
        thrown = dice(self.seed, lane)
        while bag := [fault for fault in BAGS[kind] if fault in self.faults]:
            thrown.shuffle(bag)
            for fault in bag:
                yield Strike(
                    fault=fault,
                    after=(seconds + self.lease * leases) * thrown.uniform(0.5, 1.5),
                    lasts=self._lasts(fault, thrown),
                    chance=Random(thrown.random()),
                )

    def _lasts(self, fault: str, thrown: Random) -> float:
        """A freeze outlasts the lease and the judges' next look; a server, or a tree, is away for a moment."""
        if fault == FREEZE:
            return self.lease * thrown.uniform(1.2, 1.8) + 2.0
        return thrown.uniform(0.0, 3.0) if fault in (TREE, BROKER, LINGER) else 0.0


def make_plan(*, seed: int, seconds: float, cases: int, lease: float, only: Iterable[str] = ()) -> Plan:
    """Cases start one by one, at random instants. only: short names of faults; all if there are none."""
    thrown = dice(seed, "cases")
    starting = max(0.2 * seconds, seconds - NEEDED)
    instants = sorted(thrown.uniform(0, starting) for _ in range(cases))
    return Plan(
        seed=seed,
        seconds=seconds,
        lease=lease,
        faults=frozenset(FAULTS[name] for name in only or FAULTS),
        cases=tuple((instant, f"case-{number:04}") for number, instant in enumerate(instants, 1)),
    )
