"""How long a case stood still: the time between two successive events in which it was neither waiting, asleep nor held.

Events are its checkpoints, the attempts that came to nothing, what the outside world saw of its calls, and what the
operator did. What was meant to pass after an event is taken off: the rest of a call, a sleep, a back-off, the settling
before a verification, a wait until its answer was sent or its deadline had come. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from statistics import quantiles

from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.stage import SETTLING
from benchmarks.chaos.workflow import BACK_OFF, DEADLINE, STEPS, nap_seconds
from keepstep.checkpoint.reads import Event

HELD = ("held", "crashed", "node_died", "orphaned", "timed_out", "released")
"""Ends of attempts after which a step under "hold" is held."""
FOR_EVER = float("inf")


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Something that happened. meant: seconds that may pass after it before anything else has to happen."""

    at: float
    what: str
    meant: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A case stood still for that many seconds, from one moment to the next."""

    seconds: float
    thread_id: str
    at: float
    between: str


def gaps(case: Evidence) -> Iterator[Gap]:
    """All gaps of a case, those of no length included."""
    for one, two in pairwise(_moments(case)):
        meant = FOR_EVER if two.what.startswith("audit") else one.meant
        seconds = max(0.0, two.at - one.at - meant)
        yield Gap(seconds=seconds, thread_id=case.thread_id, at=one.at, between=f"{one.what} … {two.what}")


def summary(seconds: Sequence[float]) -> tuple[float, float, float]:
    """Median, 99th percentile and worst."""
    if len(seconds) < 2:
        return (seconds[0],) * 3 if seconds else (0.0,) * 3
    cuts = quantiles(seconds, n=100, method="inclusive")
    return cuts[49], cuts[98], max(seconds)


def _moments(case: Evidence) -> list[Moment]:
    sent = {event.step: event.at for event in case.history if event.kind == "sent"}
    inside = [_inside(case, event, sent) for event in case.history if event.kind != "sent"]
    outside = [Moment(at=e.at, what=f"{e.what} {e.kind}", meant=e.pause) for e in case.lines]
    return sorted([*inside, *outside], key=lambda moment: moment.at)


def _inside(case: Evidence, event: Event, sent: dict[str, datetime]) -> Moment:
    return Moment(
        at=event.at.astimezone(UTC).timestamp(),
        what=f"{event.kind} {event.step}#{event.seq}",
        meant=_meant(case, event, sent),
    )


def _meant(case: Evidence, event: Event, sent: dict[str, datetime]) -> float:
    kind = STEPS.get(event.step, "")
    if event.detail.get("status") == "waiting":
        if kind == "never":
            return DEADLINE
        return max(0.0, (sent[kind] - event.at).total_seconds()) if kind in sent else FOR_EVER
    if event.detail.get("status") == "sleeping":
        return nap_seconds(case.thread_id, event.step)
    if event.kind in ("raised", "not_done"):
        return BACK_OFF
    if (event.kind in HELD and kind == "hold") or event.kind == "held":
        return FOR_EVER
    if event.kind in ("in_doubt", *HELD) and kind == "verify":
        return SETTLING
    return 0.0
