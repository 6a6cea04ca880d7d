"""Judges what became of a case that was killed, beside one that nobody killed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from keepstep.steps.step import Step
from keepstep.steps.workflow import Workflow
from keepstep.testing.crash.effects import made
from keepstep.testing.crash.facts import Lived
from keepstep.testing.crash.path import Visit
from keepstep.testing.crash.sameness import comparable, differences

BEGUN = frozenset({"intended", "answered", "recorded", "called", "written"})
"""Points at which the step's own code has begun, and nothing of it is committed: it is called twice."""

ADVICE = (
    "hand over call.key (or call.headers, call.key_of(name)) with the call, so that the other side makes it once; or "
    "write into the same database with transactional=True; or say what to do when nobody knows whether the call took "
    'effect: in_doubt=verify, in_doubt="hold"; and give a second call in the same step a record of its own: '
    "call.once(name, ...)"
)


class Mark(StrEnum):
    """What became of a kill."""

    PASSED = "-"  # the case never came by
    FINE = "ok"  # nothing was delivered again, or it had not begun
    AGAIN = "again"  # the step was delivered again, but its code had not begun
    TWICE = "twice"  # the step's code was called twice
    HELD = "held"  # for a person, as its in_doubt says
    WRONG = "WRONG"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """About one kill. step: whose. wrong: what isn't as without a crash. unsafe: by step, why it isn't safe."""

    visit: Visit
    thread_id: str
    step: str
    mark: Mark
    wrong: tuple[str, ...] = ()
    unsafe: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What a case is compared with. effects: None where nobody counts them. pure: steps without outside effects.

    find: another workflow by name, for the children; None if nobody knows it.
    """

    workflow: Workflow
    clean: Lived
    effects: Counter[str | None] | None
    ignore: Collection[str]
    pure: Collection[str]
    find: Callable[[str], Workflow | None] = lambda _name: None

    def step_at(self, seq: int, place: str = "") -> str:
        """What ran from this checkpoint of the case, or of a branch, on, without a crash."""
        clean = self.clean.at(place)
        written = () if clean is None else clean.written
        ran = [w.step for w in written if w.seq == seq + 1]
        due = [w.target for w in written if w.seq == seq and w.target]  # a step that failed wrote nothing
        return next(iter(ran + due), "")

    def step(self, workflow: str, name: str) -> Step | None:
        """The definition of a step of the case or of its branches; None if nobody knows it. workflow: "" is its own."""
        own = self.workflow
        if workflow in ("", own.name):
            return own.find(name)
        other = own.branches if own.branches is not None and own.branches.name == workflow else self.find(workflow)
        return None if other is None else other.find(name)

    def unlike(self, lived: Lived) -> list[str]:
        """In what another case that has ended differs, and its branches, as sentences."""
        clean, found = self.clean, _unlike(self.clean, lived)
        for place in {**clean.branches, **lived.branches}:
            before, now = clean.at(place), lived.at(place)
            if before is None or now is None:
                how = "was never begun" if now is None else "was begun, without a crash it is not"
                found.append(f"branch {place} {how}")
            elif "cancelled" not in (before.status, now.status):  # with one that failed: others may have come before it
                found += [f"of branch {now.thread_id}: {what}" for what in _unlike(before, now)]
        if not found:
            after = comparable(lived, self.ignore)
            found += [f"its state differs at {d}" for d in differences(comparable(clean, self.ignore), after)]
        return found


def _unlike(clean: Lived, lived: Lived) -> list[str]:
    found = []
    if lived.status != clean.status:
        found.append(f"it ended {lived.status}{_why(lived)}, without a crash {clean.status}")
    if lived.path != clean.path:
        found.append(f"its checkpoints are {_words(lived)}; without a crash {_words(clean)}")
    return found


def judge(
    measure: Measure, visit: Visit, lived: Lived, effects: Counter[str | None] | None, *, killed: bool
) -> Verdict:
    """Say whether a case that was killed at this visit, itself or a branch, ended as the clean one did.

    effects: of the case and of its branches.
    """
    named = measure.step_at(visit.seq, visit.place)
    step = measure.step(visit.workflow, named)
    struck = lived.at(visit.place)
    wrong: list[str] = []
    mark = Mark.FINE if killed else Mark.PASSED
    if struck is not None and any(seq == visit.seq for seq, _ in struck.lost):
        mark = Mark.TWICE if visit.point in BEGUN else Mark.AGAIN
    if any(one.status == "held" and _may_be_held(measure, one) for one in lived.family):
        mark = Mark.HELD
    else:
        wrong += measure.unlike(lived)
    wrong += _missing(measure, effects) if mark is not Mark.HELD else []
    unsafe = _made_twice(measure, lived, effects)
    if not unsafe and effects is None and mark is Mark.TWICE and step is not None and _is_keyless(measure, step, visit):
        unsafe = [(step.name, f"unsafe: `{step.name}` was called twice under no key")]
    return Verdict(
        visit=visit,
        thread_id=lived.thread_id if struck is None else struck.thread_id,
        step=named,
        mark=Mark.WRONG if wrong or unsafe else mark,
        wrong=tuple(wrong),
        unsafe=tuple(unsafe),
    )


def _made_twice(measure: Measure, lived: Lived, effects: Counter[str | None] | None) -> list[tuple[str, str]]:
    """The steps that were delivered again, if there are more effects than without a crash."""
    if effects is None or measure.effects is None or made(effects) <= made(measure.effects):
        return []
    counted = f"{made(effects)} effects were made, without a crash {made(measure.effects)}"
    found: dict[str, str] = {}
    for one in lived.family:
        for seq, name in dict.fromkeys(one.lost):
            how = _how(measure.step(one.workflow, name), key_read(one, seq))
            found.setdefault(name, f"unsafe: `{name}` was called twice {how}: {counted}")
    return list(found.items()) or [(lived.thread_id, f"more effects than steps explain: {counted}")]


def _how(step: Step | None, read: bool | None) -> str:
    if step is not None and step.transactional:
        return "and does something outside of its transaction"
    if step is not None and step.in_doubt == "verify":
        return "and its verify did not find what the first call had done"
    return "and read its key, but its effects were made under others" if read else "under no key"


def _missing(measure: Measure, effects: Counter[str | None] | None) -> list[str]:
    if effects is None or measure.effects is None or made(effects) >= made(measure.effects):
        return []
    return [f"{made(effects)} effects were made, without a crash {made(measure.effects)}"]


def _is_keyless(measure: Measure, step: Step, visit: Visit) -> bool:
    """Whether nothing keeps the step's effect from being made twice, if it has one."""
    guarded = step.transactional or step.in_doubt != "retry" or step.name in measure.pure
    clean = measure.clean.at(visit.place)
    return not guarded and clean is not None and key_read(clean, visit.seq) is False


def key_read(lived: Lived, seq: int) -> bool | None:
    """Whether the step that ran from this checkpoint on asked for its key; None if it wrote none that could say so."""
    return next((w.key_read for w in lived.written if w.seq == seq + 1), None)


def _may_be_held(measure: Measure, lived: Lived) -> bool:
    """Whether the step's policy wants a person to be asked about a call in doubt."""
    step = measure.step(lived.workflow, lived.step or "")
    return step is not None and step.in_doubt != "retry" and str(lived.why.get("why", "")).startswith("in doubt")


def _why(lived: Lived) -> str:
    said: Any = lived.why.get("message") or lived.why.get("why")
    at = f" at {lived.step!r}" if lived.step else ""
    return f"{at} ({said})" if said else at


def _words(lived: Lived) -> str:
    return ", ".join(f"{step}#{seq}" for seq, _, step in lived.path) or "none"


def verdicts_by_step(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """Why each step isn't safe to be delivered twice; only those that aren't."""
    found: dict[str, str] = {}
    for verdict in verdicts:
        for step, why in verdict.unsafe:
            found.setdefault(step, why)
    return found
