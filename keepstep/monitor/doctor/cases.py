"""The cases: which of them will not go on by themselves?"""

from __future__ import annotations

from collections.abc import Iterator

from keepstep.checkpoint import queues
from keepstep.checkpoint.sql import checkup as sql
from keepstep.monitor.doctor.finding import Finding, Patient, bad, ok, warn
from keepstep.steps.words import duration

BEHIND = 30.0
"""Seconds by which the sweep may be behind: it looks every second, and puts a backlog off."""


def look_at_cases(patient: Patient) -> Iterator[Finding]:
    """Raises DatabaseUnavailable."""
    db = patient.client.db
    behind, overdue = queues.lag(db)
    if behind > BEHIND and patient.live:
        yield bad(
            f"the sweep is {duration(behind)} behind, {overdue:,} heads are overdue",
            "Look into the workers' logs for 'no sweep' and 'a round of the sweep failed'.",
        )
    elif behind > BEHIND:
        yield bad(f"nobody sweeps: {overdue:,} heads are overdue, the first for {duration(behind)}", "Start a worker.")
    else:
        yield ok("the sweep keeps up")
    stuck = db.all(sql.STUCK)[0]
    if stuck.held:
        yield warn(
            f"{_many(stuck.held)} held",
            "Each says why: keepstep list --status held. When the cause is mended: keepstep retry.",
        )
    if stuck.paused:
        yield warn(f"{_many(stuck.paused)} paused", "keepstep resume, when the reason has passed.")
    if stuck.overdue:
        yield bad(
            f"{_many(stuck.overdue)} past their step's deadline for more than a minute",
            "The sweep should have taken them away: see its log.",
        )
    if stuck.unknown:
        yield warn(
            f"{_many(stuck.unknown)} at a step that the workers they were asked by have no code for",
            "Deploy code that has it, or an alias for it: keepstep why tells the name.",
        )
    if stuck.hooks:
        yield warn(f"{stuck.hooks:,} hooks have been tried in vain more than three times", "See the workers' logs.")
    if stuck.unanswered:
        yield warn(f"{stuck.unanswered:,} questions have been open for two weeks or longer", "keepstep inbox")
    if not any(stuck):
        yield ok("no case is held, paused, or past its deadline")


def _many(count: int) -> str:
    return f"{count:,}{'+' if count >= 10_000 else ''} {'case is' if count == 1 else 'cases are'}"
