"""What of the evidence breaks a promise. Pure; the definitions are those of docs/guarantees.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.chaos.backend import answer
from benchmarks.chaos.evidence import Evidence
from benchmarks.chaos.workflow import ERRANDS, GRAINS, NOBODY, PIECES, STEPS
from keepstep.steps.keys import branch_run, idempotency_key, once_key

LOST = "cases lost: they never ended"
ENDED_OTHERWISE = "cases that ended otherwise than completed"
STEP_LOST = "steps lost: no checkpoint, no effect, or not in the final state"
KEPT_TWICE = "results kept twice"
OTHER_KEY = "steps whose calls had different keys"
MADE_TWICE = "effects made twice under hold, verify or transactional"
WRONG_ANSWER = "answers lost or mixed up"
BRANCH_LOST = "branches lost or doubled: not one that completed for each item"
NOT_JOINED = "fan-outs that were not joined once, with the results in order"
PROMISES = (
    *(LOST, ENDED_OTHERWISE, STEP_LOST, KEPT_TWICE, OTHER_KEY, MADE_TWICE, WRONG_ANSWER),
    *(BRANCH_LOST, NOT_JOINED),
)

ONCE_AT_MOST = ("hold", "verify", "transactional")
KEEPING = ("step", "verify", "skip")
"""Kinds of checkpoints that keep a step's result: by its code, by its verification, by an operator who saw it."""


@dataclass(frozen=True, kw_only=True)
class Flaw:
    """A broken promise, of one case."""

    promise: str
    thread_id: str
    what: str


def flaws(case: Evidence) -> Iterator[Flaw]:
    """Everything that is wrong with a case. One that never ended may be wrong in other ways, too."""
    complete = case.status == "completed"
    if not complete:
        yield _flaw(case, ENDED_OTHERWISE if case.status in ("failed", "cancelled") else LOST, f"it is {case.status}")
    yield from _checkpoints(case)
    yield from _results(case, complete=complete)
    yield from _effects(case)
    if complete:
        yield from _answers(case)
        yield from _branches(case)


def repeated(case: Evidence) -> int:
    """Effects that were made once more, under policy retry: raw deliveries beyond the first of each key."""
    made = Counter(effect.key for effect in case.effects if STEPS[_step(effect.what)] not in ONCE_AT_MOST)
    return sum(count - 1 for count in made.values())


def kept(case: Evidence) -> Counter[str]:
    """How often each step's result was kept, in a checkpoint."""
    return Counter(event.step for event in case.history if event.kind in KEEPING)


def _checkpoints(case: Evidence) -> Iterator[Flaw]:
    seqs = [event.seq for event in case.history if event.kind in ("start", "signal", "timeout", "join", *KEEPING)]
    if Counter(seqs) != Counter(range(len(seqs))):
        yield _flaw(case, STEP_LOST, f"its checkpoints are {seqs}: one is missing")
    for step, count in kept(case).items():
        if count > 1:
            yield _flaw(case, KEPT_TWICE, f"{step} has {count} checkpoints")


def _results(case: Evidence, *, complete: bool) -> Iterator[Flaw]:
    log, receipts = list(case.state.get("log", [])), dict(case.state.get("receipts", {}))
    for step, count in Counter(log).items():
        if count > 1:
            yield _flaw(case, KEPT_TWICE, f"{step} is {count} times in the state")
    expected = list(STEPS) if complete else list(STEPS)[: len(log)]
    if log != expected and len(log) == len(set(log)):
        missing = [step for step in expected if step not in log]
        yield _flaw(case, STEP_LOST, f"its log is not that of the steps in order; missing: {missing}")
    known = {(effect.what, effect.receipt) for effect in case.effects}
    done = kept(case)
    for step in expected:
        if not done[step]:
            yield _flaw(case, STEP_LOST, f"{step} has no checkpoint")
        for what in _calls(step):
            receipt = None if STEPS[step] == "transactional" else receipts.get(what, "")
            if (what, receipt) not in known:
                yield _flaw(case, STEP_LOST, f"{what}: the state's receipt {receipt!r} is of no effect that was made")


def _effects(case: Evidence) -> Iterator[Flaw]:
    """One key for each call, that of the seq from which its step ran; made once where the policy says so."""
    before = _begun(case)
    for what in dict.fromkeys(effect.what for effect in case.effects):
        step, keys = _step(what), [effect.key for effect in case.effects if effect.what == what]
        if len(set(keys)) > 1:
            yield _flaw(case, OTHER_KEY, f"{what}: {sorted(set(keys))}")
        elif step in before and keys[0] != _key(case, before[step], what):
            yield _flaw(case, OTHER_KEY, f"{what}: {keys[0]} is not the key of {step} from seq {before[step]} on")
        if len(keys) > 1 and STEPS[step] in ONCE_AT_MOST:
            yield _flaw(case, MADE_TWICE, f"{what} was made {len(keys)} times")


def _answers(case: Evidence) -> Iterator[Flaw]:
    told = {"early": answer("early", case.thread_id), "late": answer("late", case.thread_id), "never": NOBODY}
    for name, expected in told.items():
        if case.state.get(name) != expected:
            yield _flaw(case, WRONG_ANSWER, f"{name}: {case.state.get(name)!r} instead of {expected!r}")


def _branches(case: Evidence) -> Iterator[Flaw]:
    """One completed case for each item, one join for each fan-out, and the results in the order of the list."""
    places: dict[str, str] = {}
    joins = Counter(event.step for event in case.history if event.kind == "join")
    receipts = {effect.what: {e.receipt for e in case.effects if e.what == effect.what} for effect in case.effects}
    for step, seq in _begun(case).items():
        if STEPS[step] not in ("fan", "child"):
            continue
        if joins[step] != 1:
            yield _flaw(case, NOT_JOINED, f"{step} was joined {joins[step]} times")
        for place, what in _below(step, seq + 1):
            places[place] = what
            if what and what not in receipts:
                yield _flaw(case, BRANCH_LOST, f"{what} was never called")
    if wrong := {place: status for place, status in case.below.items() if status != "completed" or place not in places}:
        yield _flaw(case, BRANCH_LOST, f"there are {wrong}")
    if missing := sorted(places.keys() - case.below.keys()):
        yield _flaw(case, BRANCH_LOST, f"there are no {missing}")
    yield from _joined(case, receipts)


def _joined(case: Evidence, receipts: Mapping[str, set[str | None]]) -> Iterator[Flaw]:
    """What the last of each kind has brought to the state."""
    fan, child = (next(s for s in reversed(STEPS) if STEPS[s] == kind) for kind in ("fan", "child"))
    nested, *others = case.state.get("pieces") or [None]
    brought = {f"{fan}/0/{n}": receipt for n, receipt in enumerate(nested or ())}
    brought |= {f"{fan}/{n}": receipt for n, receipt in enumerate(others, 1)}
    errand = case.state.get("child") or {}
    brought |= {f"{child}/{name}": receipt for name, receipt in zip(ERRANDS, errand.get("receipts", ()), strict=False)}
    for what in [what for step in (fan, child) for what in _results_of(step)]:
        if brought.get(what) not in receipts.get(what, ()):
            yield _flaw(case, NOT_JOINED, f"{what}: the state has {brought.get(what)!r}, which is no receipt of it")


def _below(step: str, seq: int) -> Iterator[tuple[str, str]]:
    """The places of a fan-out's cases, those of the first one's own included, and what each calls; "" if several."""
    if STEPS[step] == "child":
        yield f"#{seq}[0]", ""
        return
    for number in range(PIECES):
        yield f"#{seq}[{number}]", f"{step}/{number}"
    for number in range(GRAINS):
        yield f"#{seq}[0]#1[{number}]", f"{step}/0/{number}"


def _results_of(step: str) -> list[str]:
    """What is called for the results that a fan-out brings."""
    if STEPS[step] == "child":
        return [f"{step}/{name}" for name in ERRANDS]
    return [*(f"{step}/0/{n}" for n in range(GRAINS)), *(f"{step}/{n}" for n in range(1, PIECES))]


def _begun(case: Evidence) -> dict[str, int]:
    """The checkpoints from which the steps ran."""
    return {event.step: (event.seq or 0) - 1 for event in case.history if event.kind in KEEPING}


def _calls(step: str) -> list[str]:
    """What a step calls."""
    return [step, f"{step}.first", f"{step}.second"] if STEPS[step] == "once" else [step]


def _step(what: str) -> str:
    return re.split("[./]", what)[0]


def _key(case: Evidence, seq: int, what: str) -> str:
    """The key of what a step, or a branch that it fans out into, calls. seq: from which the step runs."""
    step, *branches = what.split("/")
    if not branches:
        step, _, name = what.partition(".")
        return str(once_key(case.run, seq, step, name) if name else idempotency_key(case.run, seq, step))
    if STEPS[step] == "child":
        return str(idempotency_key(branch_run(case.run, seq + 1, 0), ERRANDS.index(branches[0]), branches[0]))
    run = branch_run(case.run, seq + 1, int(branches[0]))
    if len(branches) == 1:
        return str(idempotency_key(run, 0, "piece"))
    return str(idempotency_key(branch_run(run, 1, int(branches[1])), 0, "grain"))


def _flaw(case: Evidence, promise: str, what: str) -> Flaw:
    return Flaw(promise=promise, thread_id=case.thread_id, what=what)
