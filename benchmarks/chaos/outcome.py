"""What came of a run, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.chaos import standstill, verdict
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.standstill import Gap
from benchmarks.chaos.verdict import Flaw

ASTONISHED = "cases held for a reason that no fault explains"
CAME_TO_NOTHING = ("crashed", "node_died", "released", "orphaned", "timed_out", "late", "in_doubt", "raised")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Of one run. seconds: until the last case ended, or was given up. settled: seconds of it after the last fault.

    attempts: those that came to nothing, by what became of them. surprises: errors of the client that it doesn't
    document, by type. ended: what workers logged last that ended by themselves. given_up: those that Celery ended
    because a child was killed before they were ready. accompanied: steps that were committed together with others'.
    """

    seed: int
    seconds: float
    settled: float
    evidence: Sequence[Evidence]
    struck: Mapping[str, int]
    held: Mapping[str, int]
    astonished: Mapping[str, str]
    surprises: Mapping[str, int]
    ended: Sequence[str]
    given_up: int
    accompanied: int

    @property
    def flaws(self) -> list[Flaw]:
        """Every broken promise."""
        found = [flaw for case in self.evidence for flaw in verdict.flaws(case)]
        odd = [Flaw(promise=ASTONISHED, thread_id=name, what=what) for name, what in self.astonished.items()]
        return [*found, *odd]

    @property
    def broken(self) -> Counter[str]:
        """How many cases break each promise; every promise is in it."""
        pairs = {(flaw.promise, flaw.thread_id) for flaw in self.flaws}
        counted = Counter(promise for promise, _ in pairs)
        return Counter({promise: counted[promise] for promise in (*verdict.PROMISES, ASTONISHED)})

    @property
    def completed(self) -> int:
        """Cases."""
        return sum(case.status == "completed" for case in self.evidence)

    @property
    def steps(self) -> int:
        """Results that were kept."""
        return sum(verdict.kept(case).total() for case in self.evidence)

    @property
    def repeated(self) -> int:
        """Effects that were made once more, under policy retry and the same key."""
        return sum(verdict.repeated(case) for case in self.evidence)

    @property
    def attempts(self) -> Counter[str]:
        """Attempts that came to nothing."""
        kinds = Counter(event.kind for case in self.evidence for event in case.history)
        return Counter({kind: kinds[kind] for kind in CAME_TO_NOTHING})

    @property
    def gaps(self) -> list[Gap]:
        """All of them, the longest first."""
        found = [gap for case in self.evidence for gap in standstill.gaps(case)]
        return sorted(found, key=lambda gap: -gap.seconds)
