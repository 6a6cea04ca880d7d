"""Two cases that nobody kills: the points that a case comes by, and what those that are killed are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from keepstep.testing.crash.effects import Effects, count, made
from keepstep.testing.crash.facts import Lived, gather
from keepstep.testing.crash.judgement import Measure
from keepstep.testing.crash.path import State, Visit, record
from keepstep.testing.crash.stage import Stage
from keepstep.testing.crash.strike import strike

RECORDED, UNDISTURBED = "recorded", "undisturbed"
"""Thread ids, behind the prefix."""
TRIES = 3
"""How often a case is recorded whose process was disturbed: killed by the machine, say."""
SHOWN = 5
"""Differences that a message shows."""


def measured(
    stage: Stage, state: State, effects: Effects | None, *, ignore: Collection[str], pure: Collection[str]
) -> tuple[Measure, list[Visit]]:
    """What cases are compared with, and the points of one. Raises AssertionError if two cases are not even alike."""
    clean, visits = _record(stage, state)
    _check(clean)
    again = stage.prefix + UNDISTURBED
    strike(stage, [], state, [again])
    second = gather(stage.db, again)[again]
    counted = None if effects is None else count(effects)
    first = None if counted is None else counted.get(clean.thread_id, Counter())
    measure = Measure(workflow=stage.workflow, clean=clean, effects=first, ignore=ignore, pure=pure)
    unlike = measure.unlike(second)
    if counted is not None and first is not None and made(first) != made(counted.get(again, Counter())):
        unlike.append(f"{made(first)} effects were counted of one, {made(counted.get(again, Counter()))} of the other")
    if unlike and not second.lost:
        more = [f"and {len(unlike) - SHOWN} more"] if len(unlike) > SHOWN else []
        raise AssertionError(
            "two cases that nobody killed are not alike, so nothing can be compared with them: "
            f"{'; '.join(unlike[:SHOWN] + more)}. What may differ is named with ignore=[...]."
        )
    return measure, visits


def _record(stage: Stage, state: State) -> tuple[Lived, list[Visit]]:
    """One case, and the points that it came by."""
    for number in range(TRIES):
        thread_id = f"{stage.prefix}{RECORDED}-{number}"
        visits = record(stage, state, thread_id)
        clean = gather(stage.db, thread_id)[thread_id]
        if not clean.lost:
            break
    return clean, visits


def _check(clean: Lived) -> None:
    if clean.status == "held":
        why = clean.why.get("message") or clean.why.get("why")
        trace = clean.why.get("traceback") or ""
        raise AssertionError(f"nobody was killed, and the case is held at {clean.step!r}: {why}\n{trace}")
