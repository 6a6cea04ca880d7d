"""The table of a run, and the cases that break a promise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.table import Table

from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.outcome import Outcome
from benchmarks.chaos.standstill import summary

SHOWN = 5
"""Offending cases that are told in full."""

Row = tuple[str, str, str]


def table(outcome: Outcome) -> Table:
    """Everything in one."""
    drawn = Table(title=f"{len(outcome.evidence)} cases of 42 steps under faults, seed {outcome.seed}")
    for column in ("what", "number", "promised"):
        drawn.add_column(column, justify="left" if column == "what" else "right")
    for section in (_cases(outcome), _promises(outcome), _allowed(outcome), _faults(outcome), _standstill(outcome)):
        for row in section:
            drawn.add_row(*row)
        drawn.add_section()
    return drawn


def figures(outcome: Outcome) -> dict[str, Any]:
    """The same for a program."""
    ranked = outcome.gaps
    return {
        "seed": outcome.seed,
        "seconds": round(outcome.seconds, 1),
        "settled": round(outcome.settled, 1),
        "started": len(outcome.evidence),
        "completed": outcome.completed,
        "steps": outcome.steps,
        "accompanied": outcome.accompanied,
        "broken": dict(outcome.broken),
        "repeated": outcome.repeated,
        "attempts": dict(outcome.attempts),
        "held": dict(outcome.held),
        "struck": dict(outcome.struck),
        "surprises": dict(outcome.surprises),
        "ended": list(outcome.ended),
        "given_up": outcome.given_up,
        "standstill": summary([gap.seconds for gap in ranked]),
        "longest": [f"{gap.seconds:.2f} s: {gap.thread_id} at {gap.at:.1f}: {gap.between}" for gap in ranked[:SHOWN]],
    }


def offenders(outcome: Outcome) -> Iterator[str]:
    """What is wrong with which case, and its history; the first few in full."""
    found = sorted(outcome.flaws, key=lambda flaw: flaw.thread_id)
    by_id = {case.thread_id: case for case in outcome.evidence}
    for number, (thread_id, of_case) in enumerate(groupby(found, key=lambda flaw: flaw.thread_id)):
        yield f"\n{thread_id}"
        yield from (f"  {flaw.promise}: {flaw.what}" for flaw in of_case)
        if number < SHOWN and thread_id in by_id:
            yield from (f"    {line}" for line in story(by_id[thread_id]))


def _cases(outcome: Outcome) -> Iterator[Row]:
    yield "cases started", f"{len(outcome.evidence):,}", ""
    yield "cases completed", f"{outcome.completed:,}", "all"
    yield "steps whose result was kept", f"{outcome.steps:,}", ""
    yield "of them committed together with another case's", f"{outcome.accompanied:,}", ""
    yield "seconds in all, and after the last fault", f"{outcome.seconds:.0f}, {outcome.settled:.0f}", ""


def _promises(outcome: Outcome) -> Iterator[Row]:
    for promise, count in outcome.broken.items():
        yield promise, f"{count}", "0"
    yield "errors of the client that it doesn't document", f"{sum(outcome.surprises.values())}", "0"
    yield "workers that ended by themselves", f"{len(outcome.ended)}", "0"


def _allowed(outcome: Outcome) -> Iterator[Row]:
    share = 10_000 * outcome.repeated / max(1, outcome.steps)
    yield "effects made again under retry, per 10,000 steps", f"{share:.1f}", "same key"
    for kind, count in outcome.attempts.items():
        yield f"attempts that came to nothing: {kind}", f"{count:,}", ""
    for reason, count in sorted(outcome.held.items()):
        yield f"held and moved: {reason}", f"{count:,}", ""


def _faults(outcome: Outcome) -> Iterator[Row]:
    for fault, count in outcome.struck.items():
        yield fault, f"{count:,}", ""
    yield "worker ended by Celery: a child was killed too early", f"{outcome.given_up}", ""


def _standstill(outcome: Outcome) -> Iterator[Row]:
    ranked = outcome.gaps
    longest = {gap.thread_id: gap.seconds for gap in reversed(ranked)}
    for name, seconds in (
        ("stood still between two events", [gap.seconds for gap in ranked]),
        ("the longest standstill of a case", list(longest.values())),
    ):
        middle, high, worst = summary(seconds)
        yield f"{name}, s: median / p99 / worst", f"{middle:.3f} / {high:.2f} / {worst:.2f}", ""


def story(case: Evidence) -> list[str]:
    """Its history and what the outside world saw, in order."""
    told = [
        (event.at.timestamp(), f"{event.kind} {event.step} seq {event.seq} {_detail(event.detail)}")
        for event in case.history
    ]
    told += [(line.at, f"  outside: {line.kind} {line.what} {line.key} by {line.pid}") for line in case.lines]
    return [f"{at:.3f} {text}" for at, text in sorted(told)]


def _detail(detail: dict[str, Any]) -> str:
    shown = {name: detail.get(name) for name in ("status", "attempt", "node", "reason", "error") if detail.get(name)}
    if (error := shown.get("error")) is not None:
        shown["error"] = {name: error[name] for name in ("type", "message", "why", "move") if name in error}
    return " ".join(f"{name}={value}" for name, value in shown.items())
