"""A small chaos keeps every promise, and is able to find them broken: by an engine without its fence, or its sweep.

The long one is `make chaos`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from benchmarks.chaos import verdict
from benchmarks.chaos.backend import answer
from benchmarks.chaos.evidence import Effect, Evidence
from benchmarks.chaos.outside import Line
from benchmarks.chaos.plan import make_plan
from benchmarks.chaos.workflow import ERRANDS, GRAINS, NOBODY, PIECES, STEPS
from keepstep.checkpoint.reads import Event
from keepstep.steps.keys import branch_run, idempotency_key, once_key
from tests.support.worker import ROOT

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(240), pytest.mark.slow]


def run(*options: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, figures, and what was said of cases that break a promise."""
    command = [sys.executable, "-m", "benchmarks.chaos", "--json", "--lease", "2", "--workers", "2", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_small_chaos_breaks_no_promise() -> None:
    code, figures, said = run("--seconds", "15", "--cases", "12", "--seed", "20")
    assert code == 0, said
    assert figures["completed"] == 12
    assert figures["steps"] == 12 * len(STEPS)
    assert set(figures["broken"].values()) == {0}
    assert sum(figures["struck"].values()) >= 8


def test_without_the_fence_the_chaos_finds_results_kept_twice() -> None:
    only = ("--mutant", "unfenced", "--only", "freeze", "--workers", "3", "--slowness", "4", "--patience", "3")
    code, figures, said = run("--seconds", "12", "--cases", "16", "--seed", "20", *only)
    assert code == 1, figures
    assert figures["broken"][verdict.KEPT_TWICE] > 0, figures
    assert "seed 20" in said
    assert verdict.KEPT_TWICE in said


def test_without_the_sweep_the_chaos_finds_lost_cases() -> None:
    only = ("--mutant", "sweepless", "--patience", "3")
    code, figures, said = run("--seconds", "8", "--cases", "10", "--seed", "20", *only)
    assert code == 1
    assert figures["broken"][verdict.LOST] > 0, figures
    assert verdict.LOST in said


def test_one_seed_is_one_plan() -> None:
    one, two, three = (make_plan(seed=seed, seconds=60, cases=50, lease=10) for seed in (7, 7, 8))
    assert one == two
    assert one.cases != three.cases
    for lane in ("worker 1", "broker", "database", "connections"):
        strikes = [[next(of).fault for _ in range(20)] for of in (p.strikes(lane) for p in (one, two))]
        assert strikes[0] == strikes[1]


# ------------------------------------------------------------------------------------------- the verdict on one case
RUN = UUID(int=7)


def whole() -> Evidence:
    """The evidence of a case that nothing happened to."""
    now, seq, thread_id = datetime.now(UTC), 0, "A"
    history, lines, rows, receipts = [event("start", "start", 0, now)], [], [], {}
    below, brought = {}, {}
    for step, kind in STEPS.items():
        keys = {step: idempotency_key(RUN, seq, step)}
        if kind == "once":
            keys |= {f"{step}.{name}": once_key(RUN, seq, step, name) for name in ("first", "second")}
        for what, key in keys.items():
            receipts[what] = f"receipt of {what}"
            if kind == "transactional":
                rows.append(Effect(what=what, key=str(key)))
            else:
                lines.append(made(what, str(key), receipts[what]))
        seq += 1
        history.append(event("step", step, seq, now))
        if kind in ("early", "late", "never"):
            seq += 1
            history.append(event("signal", kind, seq, now))
        if kind in ("fan", "child"):
            for what, run, place, name, at in calls_below(step, kind, seq):
                lines.append(made(what, str(idempotency_key(run, at, name)), f"receipt of {what}"))
                below[place] = "completed"
            brought[kind] = step
            seq += 1
            history.append(event("join", step, seq, now))
    told = {"early": answer("early", thread_id), "late": answer("late", thread_id), "never": NOBODY}
    pieces = [f"receipt of {brought['fan']}/{n}" for n in range(1, PIECES)]
    grains = [f"receipt of {brought['fan']}/0/{n}" for n in range(GRAINS)]
    child = {"receipts": [f"receipt of {brought['child']}/{name}" for name in ERRANDS]}
    state = {"log": list(STEPS), "receipts": receipts, "pieces": [grains, *pieces], "child": child, **told}
    facts = {"history": history, "lines": lines, "rows": rows, "below": below}
    return Evidence(thread_id=thread_id, run=RUN, status="completed", state=state, **facts)


def calls_below(step: str, kind: str, seq: int) -> Iterator[tuple[str, UUID, str, str, int]]:
    """What the branches of a step call: its name, the run, the place, the branch's step and where that begins."""
    if kind == "child":
        for at, name in enumerate(ERRANDS):
            yield f"{step}/{name}", branch_run(RUN, seq, 0), f"#{seq}[0]", name, at
        return
    for n in range(PIECES):
        yield f"{step}/{n}", branch_run(RUN, seq, n), f"#{seq}[{n}]", "piece", 0
    for n in range(GRAINS):
        yield f"{step}/0/{n}", branch_run(branch_run(RUN, seq, 0), 1, n), f"#{seq}[0]#1[{n}]", "grain", 0


def event(kind: str, step: str, seq: int, at: datetime) -> Event:
    return Event(at=at, kind=kind, seq=seq, step=step, detail={})


def made(what: str, key: str, receipt: str) -> Line:
    return Line(kind="made", what=what, key=key, receipt=receipt, pid=1, at=0.0, pause=0.0)


def promises(case: Evidence) -> set[str]:
    return {flaw.promise for flaw in verdict.flaws(case)}


def line_of(case: Evidence, kind: str) -> Line:
    return next(line for line in case.lines if STEPS.get(line.what) == kind)


def test_a_case_that_nothing_happened_to_has_no_flaw() -> None:
    assert promises(whole()) == set()
    assert verdict.repeated(whole()) == 0


def test_an_effect_that_is_made_again_under_its_key_is_counted_and_allowed_under_retry_alone() -> None:
    case = whole()
    again = replace(case, lines=[*case.lines, replace(line_of(case, "plain"), receipt="another")])
    assert (promises(again), verdict.repeated(again)) == (set(), 1)
    for kind in ("hold", "verify"):
        again = replace(case, lines=[*case.lines, replace(line_of(case, kind), receipt="another")])
        assert (promises(again), verdict.repeated(again)) == ({verdict.MADE_TWICE}, 0)
    assert promises(replace(case, rows=[*case.rows, case.rows[0]])) == {verdict.MADE_TWICE}


def test_each_flaw_is_seen() -> None:
    case = whole()
    plain = line_of(case, "plain")
    other = replace(plain, key="another key")
    assert promises(replace(case, status="held")) == {verdict.LOST}
    assert promises(replace(case, status="failed")) == {verdict.ENDED_OTHERWISE}
    assert promises(replace(case, lines=[*case.lines, other])) == {verdict.OTHER_KEY}
    assert promises(replace(case, lines=[other, *case.lines[1:]])) == {verdict.OTHER_KEY}
    assert promises(replace(case, lines=case.lines[1:])) == {verdict.STEP_LOST}
    assert promises(replace(case, rows=case.rows[1:])) == {verdict.STEP_LOST}
    assert promises(replace(case, history=case.history[:1] + case.history[2:])) == {verdict.STEP_LOST}
    twice = [*case.history, replace(case.history[1], seq=len(case.history))]
    assert promises(replace(case, history=twice)) >= {verdict.KEPT_TWICE}
    state = {**case.state, "log": [*case.state["log"], plain.what]}
    assert promises(replace(case, state=state)) == {verdict.KEPT_TWICE}
    assert promises(replace(case, state={**case.state, "log": case.state["log"][1:]})) == {verdict.STEP_LOST}
    assert promises(replace(case, state={**case.state, "late": "early for A"})) == {verdict.WRONG_ANSWER}


def test_each_flaw_of_branches_is_seen() -> None:
    case = whole()
    one = next(place for place in case.below if place.endswith("#1[1]"))
    for below in (
        {place: status for place, status in case.below.items() if place != one},
        {**case.below, one: "queued"},
        {**case.below, f"{one}#9[0]": "completed"},
    ):
        assert promises(replace(case, below=below)) == {verdict.BRANCH_LOST}
    grain = next(line for line in case.lines if line.what.endswith("/0/1"))
    assert promises(replace(case, lines=[*case.lines, replace(grain, key="another")])) == {verdict.OTHER_KEY}
    assert verdict.BRANCH_LOST in promises(replace(case, lines=[line for line in case.lines if line is not grain]))
    unjoined = [event for event in case.history if event.kind != "join"]
    assert verdict.NOT_JOINED in promises(replace(case, history=unjoined))
    again = replace(next(e for e in case.history if e.kind == "join"), seq=len(case.history))
    assert promises(replace(case, history=[*case.history, again])) == {verdict.NOT_JOINED}
    swapped = [case.state["pieces"][0], *reversed(case.state["pieces"][1:])]
    assert promises(replace(case, state={**case.state, "pieces": swapped})) == {verdict.NOT_JOINED}
    assert promises(replace(case, state={**case.state, "child": None})) == {verdict.NOT_JOINED}
