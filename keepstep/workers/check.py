"""Before a deploy: could the code at hand go on with every case that lives?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from keepstep.checkpoint import inflight
from keepstep.checkpoint.compatible import findings
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.finding import Finding, Verdict
from keepstep.checkpoint.inflight import Source, Stored
from keepstep.workers.patience import patient
from keepstep.workers.registry import Registry

EXAMPLES = 5
"""Cases that are named of each trouble."""
LATE = 10.0
"""Seconds. While a worker is alive there is a transaction each second, so a replica that has none for so long lags."""
PATIENCE = 30.0
"""Seconds. A replica cuts off queries that keep it from following its primary, and one may be restarted."""


@dataclass(kw_only=True)
class Trouble:
    """The same finding of several cases of one workflow. examples: thread id and what is particular to it."""

    workflow: str
    verdict: Verdict
    why: str
    path: str
    cases: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)


@dataclass(kw_only=True)
class Checked:
    """What was found. cases: how many were looked at, by workflow. ready: how many have no trouble but warnings."""

    source: Source
    cases: Counter[str] = field(default_factory=Counter)
    ready: int = 0
    troubles: list[Trouble] = field(default_factory=list)

    def passes(self, *, strict: bool = False) -> bool:
        """Whether every case would go on. strict: warnings count too, and so does a replica that is late."""
        if strict and self.is_late:
            return False
        return not any(strict or trouble.verdict is not Verdict.WARNED for trouble in self.troubles)

    @property
    def is_late(self) -> bool:
        """Whether it was a replica that lags, or may."""
        return self.source.is_replica and (self.source.behind is None or self.source.behind > LATE)


def check(
    db: Database, registry: Registry, *, workflows: Sequence[str] | None = None, sample: int | None = None
) -> Checked:
    """Load every live case as this code's worker would; nothing is called, and nothing is written.

    workflows: only these; without it, cases of workflows that aren't loaded are troubles too. sample: so many, at
    random.
    """
    read = partial(patient(PATIENCE), db.all)
    checked, by_kind = Checked(source=inflight.source(read)), dict[tuple[str, Finding], Trouble]()
    for case in inflight.each(read, registry.versions, workflows=workflows, sample=sample):
        code = registry.find(case.workflow)
        found = findings(code, case, registry.queues, registry.find)
        checked.cases[case.workflow] += 1
        checked.ready += all(one.verdict is Verdict.WARNED for one in found)
        for one in found:
            _count(by_kind, case, one)
    order = list(Verdict)
    checked.troubles = sorted(by_kind.values(), key=lambda t: (order.index(t.verdict), t.workflow, -t.cases, t.why))
    return checked


def _count(by_kind: dict[tuple[str, Finding], Trouble], case: Stored, found: Finding) -> None:
    kind = Finding(verdict=found.verdict, why=found.why, path=found.path)
    trouble = by_kind.setdefault(
        (case.workflow, kind),
        Trouble(workflow=case.workflow, verdict=found.verdict, why=found.why, path=found.path),
    )
    trouble.cases += 1
    if len(trouble.examples) < EXAMPLES:
        trouble.examples.append((case.thread_id, found.detail))
