"""Two cases that nobody kills: the points that a case comes by, and what those that are killed are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from keepstep.steps.workflow import Workflow
from keepstep.testing.crash.effects import Effects, count, made
from keepstep.testing.crash.facts import Lived, gather
from keepstep.testing.crash.judgement import Measure
from keepstep.testing.crash.path import State, Visit, chosen, record
from keepstep.testing.crash.stage import Stage
from keepstep.testing.crash.strike import strike

RECORDED, UNDISTURBED = "recorded", "undisturbed"
"""Thread ids, behind the prefix."""
TRIES = 3
"""How often a case is recorded whose process was disturbed: killed by the machine, say."""
SHOWN = 5
"""Differences that a message shows."""


def measured(
    stage: Stage,
    state: State,
    effects: Effects | None,
    *,
    ignore: Collection[str],
    pure: Collection[str],
    find: Callable[[str], Workflow | None],
) -> tuple[Measure, list[Visit]]:
    """What cases are compared with, and the points of one. Raises AssertionError if two cases are not even alike."""
    clean, visits = _record(stage, state)
    _check(clean)
    again = stage.prefix + UNDISTURBED
    strike(stage, [], state, [again])
    second = gather(stage.db, again)[again]
    counted = None if effects is None else count(effects)
    first, other = of_family(counted, clean), of_family(counted, second)
    measure = Measure(workflow=stage.workflow, clean=clean, effects=first, ignore=ignore, pure=pure, find=find)
    unlike = measure.unlike(second)
    if first is not None and other is not None and made(first) != made(other):
        unlike.append(f"{made(first)} effects were counted of one, {made(other)} of the other")
    if unlike and not any(one.lost for one in second.family):
        more = [f"and {len(unlike) - SHOWN} more"] if len(unlike) > SHOWN else []
        raise AssertionError(
            "two cases that nobody killed are not alike, so nothing can be compared with them: "
            f"{'; '.join(unlike[:SHOWN] + more)}. What may differ is named with ignore=[...]."
        )
    return measure, chosen(visits, clean)


def of_family(counted: Mapping[str, Counter[str | None]] | None, lived: Lived) -> Counter[str | None] | None:
    """The effects of a case and of its branches; None where nobody counts them."""
    if counted is None:
        return None
    return sum((counted.get(one.thread_id, Counter()) for one in lived.family), Counter[str | None]())


def _record(stage: Stage, state: State) -> tuple[Lived, list[Visit]]:
    """One case, and the points that it came by."""
    for number in range(TRIES):
        thread_id = f"{stage.prefix}{RECORDED}-{number}"
        visits = record(stage, state, thread_id)
        clean = gather(stage.db, thread_id)[thread_id]
        if not any(one.lost for one in clean.family):
            break
    return clean, visits


def _check(clean: Lived) -> None:
    for one in clean.family:
        if one.status == "held":
            why = one.why.get("message") or one.why.get("why")
            trace = one.why.get("traceback") or ""
            which = "the case" if one is clean else f"branch {one.thread_id}"
            raise AssertionError(f"nobody was killed, and {which} is held at {one.step!r}: {why}\n{trace}")
