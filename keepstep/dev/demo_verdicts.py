"""The promises, held against what happened in one run of the demo. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.dev.demo_facts import Facts, Stage

PROMISED, TOLERATED = 0.5, 4.0
"""Seconds from the new worker's registration to step 34: what is promised, and what a busy machine may take."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One promise. kept: whether it was. figure: what was measured."""

    promise: str
    kept: bool
    figure: str


def judge(facts: Facts, steps: Sequence[str], slow_step: str) -> list[Verdict]:
    """All verdicts; the run is good if all are kept."""
    return [
        _complete(facts, steps),
        _not_from_the_start(facts, steps, slow_step),
        _one_in_flight(facts, slow_step),
        _effects(facts),
        _quick(facts),
        _waiting(facts),
        _approved(facts),
    ]


def _stages(facts: Facts) -> list[Stage]:
    return [stage for stage in facts.stages if stage.number is not None]


def _complete(facts: Facts, steps: Sequence[str]) -> Verdict:
    done = [stage.name for stage in _stages(facts)]
    good = facts.case.status == "completed" and done == list(steps)
    figure = f"{facts.case.status}; {len(set(done))} of {len(steps)} steps, {len(done)} checkpoints, in order"
    return Verdict(promise="nothing is lost", kept=good, figure=figure if good else figure.replace(", in order", ""))


def _not_from_the_start(facts: Facts, steps: Sequence[str], slow_step: str) -> Verdict:
    before = steps[: steps.index(slow_step)]
    repeated = [s.name for s in _stages(facts) if s.name in before and (s.attempts > 1 or s.calls > 1)]
    figure = f"steps 1 to {len(before)} ran once" if not repeated else f"ran again: {', '.join(repeated)}"
    return Verdict(promise="it never starts over", kept=not repeated, figure=figure)


def _one_in_flight(facts: Facts, slow_step: str) -> Verdict:
    again = [stage for stage in _stages(facts) if stage.attempts > 1 or stage.calls > 1]
    lost = sorted({step for step, _ in facts.lost_attempts})
    good = [stage.name for stage in again] == [slow_step] and again[0].attempts == 2 and lost == [slow_step]
    told = ", ".join(f"step {s.number}: {s.attempts} attempts, {s.calls} calls under one key" for s in again)
    return Verdict(promise="only the step in flight runs again", kept=good, figure=told or "no step ran again")


def _effects(facts: Facts) -> Verdict:
    counts = [key["effects"] for key in facts.keys.values()]
    expected = sum(stage.calls for stage in facts.stages)
    good = bool(counts) and set(counts) == {1} and expected == facts.calls
    most = max((key["raw"] for key in facts.keys.values()), default=0)
    figure = f"{facts.calls} calls under {len(counts)} keys (at most {most} each), {sum(counts)} effects"
    return Verdict(promise="each outside effect happens once", kept=good, figure=figure)


def _quick(facts: Facts) -> Verdict:
    slow = "" if facts.after_ready < PROMISED else f" (promised: {PROMISED:g} s; a busy machine?)"
    return Verdict(
        promise="it goes on at once",
        kept=facts.after_ready < TOLERATED,
        figure=f"{max(0.0, facts.after_ready):.2f} s after the new worker was ready{slow}",
    )


def _waiting(facts: Facts) -> Verdict:
    figure = "no message in Redis, no lease in PostgreSQL" if facts.at_rest else "there was still a message in Redis"
    return Verdict(promise="waiting for a person holds nothing", kept=facts.at_rest, figure=figure)


def _approved(facts: Facts) -> Verdict:
    given = facts.case.state.get("approval") or {}
    signals = sum(stage.kind == "signal" for stage in facts.stages)
    good = signals == 1 and given.get("approved") is True and bool(facts.case.state.get("offer"))
    figure = f"{signals} decision, by two, the last one {given.get('actor')}; offer {facts.case.state.get('offer')}"
    return Verdict(promise="the approval counts once", kept=good, figure=figure)
