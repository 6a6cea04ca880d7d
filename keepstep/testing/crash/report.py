"""What a crash test found: a table of points and steps, and which step isn't safe to be delivered twice."""

from __future__ import annotations

import re
from dataclasses import dataclass

from keepstep.testing.crash.judgement import ADVICE, Mark, Verdict, verdicts_by_step
from keepstep.workers.failpoints import POINTS

SHOWN = 10
"""Problems that a message shows."""

_WORST = [Mark.WRONG, Mark.HELD, Mark.TWICE, Mark.AGAIN, Mark.FINE, Mark.PASSED]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of `crash_everywhere`; as text, a table.

    steps: where each begins, a checkpoint's seq, and its name; of branch 1 of the fan-out at 2 it is `2[1] 0`.
    verdicts: one for each kill. twice: the steps whose code was called twice, with what kept that from doing harm.
    unsafe: by step, why it isn't safe. wrong: what else isn't as without a crash. seconds: how long it took.
    """

    workflow: str
    status: str
    steps: tuple[tuple[str, str], ...]
    verdicts: tuple[Verdict, ...]
    twice: dict[str, str]
    seconds: float

    @property
    def unsafe(self) -> dict[str, str]:
        """By step, why it isn't safe to be delivered twice."""
        return verdicts_by_step(self.verdicts)

    @property
    def wrong(self) -> list[str]:
        """What isn't as without a crash, as sentences."""
        return [f"{_at(verdict)}: {why}" for verdict in self.verdicts for why in verdict.wrong]

    @property
    def kills(self) -> int:
        """How many processes were killed."""
        return sum(verdict.mark is not Mark.PASSED for verdict in self.verdicts)

    @property
    def ok(self) -> bool:
        """Whether every case ended as without a crash, and every step is safe."""
        return not self.unsafe and not self.wrong

    def table(self) -> str:
        """Steps and points; of several kills at the same place the worst."""
        marks: dict[tuple[str, str], Mark] = {}
        for verdict in self.verdicts:
            place = label_of(*verdict.visit.row), verdict.visit.point
            marks[place] = min(marks.get(place, Mark.PASSED), verdict.mark, key=_WORST.index)
        used = [point for point in POINTS if any(point == at for _, at in marks)]
        rows = [["seq", "step", *used]]
        rows += [[at, step, *(str(marks.get((at, p), "")) for p in used)] for at, step in self.steps]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)

    def __str__(self) -> str:
        lines = [
            f"{self.workflow}: killed {self.kills} times, at {len(self.steps)} steps, in {self.seconds:.1f} s; without "
            f"a crash it is {self.status}",
            "",
            self.table(),
        ]
        if self.twice:
            lines += ["", "Called twice:", *(f"  {step}: {why}" for step, why in self.twice.items())]
        return "\n".join(lines)


class NotCrashSafe(AssertionError):
    """Some case ended otherwise than without a crash, or some step isn't safe to be delivered twice. See `report`."""

    def __init__(self, report: Report):
        self.report = report
        problems = [_with_place(report, step, why) for step, why in report.unsafe.items()] + report.wrong
        shown = problems[:SHOWN]
        if len(problems) > SHOWN:
            shown.append(f"... and {len(problems) - SHOWN} more")
        if report.unsafe:
            shown.append(f"What helps: {ADVICE}.")
        super().__init__("\n".join([f"{report.workflow} isn't safe under crashes:", *shown, "", str(report)]))


def label_of(place: str, seq: int) -> str:
    """Where a step begins, in a table."""
    return f"{place.lstrip('#')} {seq}".lstrip()


def in_order(row: tuple[str, int]) -> tuple[list[int], int]:
    """By which rows are sorted: the case's own, then those of its branches, each behind the one above it."""
    return [int(number) for number in re.findall(r"\d+", row[0])], row[1]


def _with_place(report: Report, step: str, why: str) -> str:
    """The sentence with a point at which it was seen."""
    first = next(v for v in report.verdicts if (step, why) in v.unsafe)
    return f"{why} (killed at {first.visit.point!r}, case {first.thread_id})"


def _at(verdict: Verdict) -> str:
    nth = f", time {verdict.visit.nth}" if verdict.visit.nth > 1 else ""
    at = f"{verdict.step}#{label_of(*verdict.visit.row)}"
    return f"killed at {verdict.visit.point!r} of {at}{nth} (case {verdict.thread_id})"
