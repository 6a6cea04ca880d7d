"""Run a user's workflow once undisturbed, then kill it at every write point that it came by."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from keepstep.steps.workflow import Workflow
from keepstep.testing.crash.answers import Signals
from keepstep.testing.crash.effects import Effects, count
from keepstep.testing.crash.facts import gather
from keepstep.testing.crash.judgement import Mark, Measure, Verdict, judge, key_read
from keepstep.testing.crash.path import State, Visit
from keepstep.testing.crash.report import NotCrashSafe, Report, in_order, label_of
from keepstep.testing.crash.stage import Stage
from keepstep.testing.crash.strike import Cell, strike
from keepstep.testing.crash.undisturbed import measured, of_family
from keepstep.workers.failpoints import POINTS
from keepstep.workers.registry import Registry


def crash_everywhere(
    workflow: Workflow | str,
    state: State,
    *,
    workflows: str | Sequence[str] | None = None,
    signals: Signals = (),
    effects: Effects | None = None,
    pure: Collection[str] = (),
    ignore: Collection[str] = (),
    points: Iterable[str] | None = None,
    database_url: str | None = None,
    broker_url: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 120.0,
) -> Report:
    """Kill the workflow's worker with SIGKILL at every write point of every step, each time in a case of its own.

    One case is run undisturbed, and says which points there are and how it ends. Then all other cases are run at once
    by a real worker. Each must end with the same status, state and checkpoints, and each effect must be made under one
    key. Its branches are killed too, of those that go the same way one, and each must be begun once and end as without
    a crash. Raises NotCrashSafe otherwise; the report, if all is well.

    state: what each case begins with, or a function of its thread id. workflows: the modules that the worker loads;
    by default the one that holds `workflow`. signals: payloads by name, for what the case waits for; pairs, if it asks
    for one name several times. Time that passes without work is skipped.

    effects: counts what was done outside so far: pairs of (thread id, key), one for each time, the key None if there
    was none; or keys by thread id. Without it, a step that was called twice, never read its key, isn't transactional
    and has no in_doubt is taken for unsafe, unless `pure` names it: it does nothing outside.

    ignore: fields, or JSON pointers such as `/documents/*/id`, that legitimately differ. points: only these.
    database_url, broker_url: a test's own; by default servers from wheels (the extra `dev`). env: variables for the
    worker. timeout: seconds for all cases together.
    """
    began = time.monotonic()
    definition, modules, known = _definition(workflow, workflows)
    wanted = _wanted(points)
    stage = Stage(
        definition,
        modules,
        signals=signals,
        database_url=database_url,
        broker_url=broker_url,
        env=env or {},
        timeout=timeout,
    )
    with stage:
        measure, visits = measured(stage, state, effects, ignore=ignore, pure=pure, find=known.find)
        cells, killed = _kill(stage, state, [visit for visit in visits if visit.point in wanted])
        lived = gather(stage.db, stage.prefix)
        counted = None if effects is None else count(effects)
    verdicts = []
    for cell in cells:
        one = lived[cell.thread_id]
        verdicts.append(judge(measure, cell.visit, one, of_family(counted, one), killed=cell in killed))
    report = _report(measure, verdicts, time.monotonic() - began)
    if not report.ok:
        raise NotCrashSafe(report)
    return report


def _kill(stage: Stage, state: State, visits: Sequence[Visit]) -> tuple[list[Cell], set[Cell]]:
    """One case for each visit, and those of them that were killed there."""
    cells = [Cell(visit=visit, thread_id=f"{stage.prefix}{number}") for number, visit in enumerate(visits, 1)]
    # a main process takes its children along: what they were at would be delivered again for two reasons
    killed = strike(stage, [cell for cell in cells if not cell.visit.in_main], state)
    killed |= strike(stage, [cell for cell in cells if cell.visit.in_main], state)
    if not killed:
        raise AssertionError("nothing was killed: the case came by none of the points that were asked for")
    return cells, killed


def _definition(
    workflow: Workflow | str, workflows: str | Sequence[str] | None
) -> tuple[Workflow, list[str], Registry]:
    """The definition, the modules for the worker, and what is known of the workflows in them."""
    modules = [workflows] if isinstance(workflows, str) else list(workflows or ())
    known = Registry()
    if isinstance(workflow, Workflow):
        if modules:
            return workflow, modules, known  # they are the worker's to import
        modules = [_home(workflow)]
        known.load(modules)
        return workflow, modules, known
    if not modules:
        raise ValueError(f"name the module that defines {workflow!r}: crash_everywhere(..., workflows='my.flows')")
    known.load(modules)
    return known.get(workflow), modules, known


def _home(workflow: Workflow) -> str:
    """The module that holds the workflow, and that a worker can import by its name."""
    holding = [
        module
        for name, module in list(sys.modules.items())
        if getattr(getattr(module, "__spec__", None), "name", None) == name  # not `__main__`, which is nobody else's
        and any(value is workflow for value in list(vars(module).values()))
    ]
    declared_in = workflow.at.rpartition(":")[0]
    holding.sort(key=lambda module: getattr(module, "__file__", None) != declared_in)
    if holding:
        return holding[0].__name__
    raise ValueError(
        f"no module that a worker could import holds {workflow.name!r} ({workflow.at}): put it into one, and name it: "
        "crash_everywhere(..., workflows='tests.my_flows')"
    )


def _wanted(points: Iterable[str] | None) -> set[str]:
    wanted = set(POINTS) if points is None else set(points)
    if unknown := wanted - set(POINTS):
        raise ValueError(f"there are no points {', '.join(sorted(unknown))}; they are {', '.join(POINTS)}")
    return wanted


def _report(measure: Measure, verdicts: Sequence[Verdict], seconds: float) -> Report:
    rows = sorted({verdict.visit.row for verdict in verdicts}, key=in_order)
    twice = {verdict.step: verdict.visit for verdict in verdicts if verdict.mark is Mark.TWICE}
    return Report(
        workflow=measure.workflow.name,
        status=measure.clean.status,
        steps=tuple((label_of(place, seq), measure.step_at(seq, place)) for place, seq in rows),
        verdicts=tuple(verdicts),
        twice={step: _what_kept_it(measure, step, visit) for step, visit in twice.items()},
        seconds=seconds,
    )


def _what_kept_it(measure: Measure, name: str, visit: Visit) -> str:
    """What kept a step that was called twice from doing harm."""
    step, clean = measure.step(visit.workflow, name), measure.clean.at(visit.place)
    if step is not None and step.transactional:
        return "its transaction was rolled back"
    if step is not None and step.verify is not None:
        return "its verify looked first"
    if clean is not None and key_read(clean, visit.seq):
        return "under one key"
    if measure.effects is not None:
        return "no effect was counted twice"
    return (
        "nothing outside, it is said" if name in measure.pure else "it ended the case, and nobody counted its effects"
    )
