"""One run: begin, strike, repair, wait until every case has ended, and gather what is known."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from benchmarks.chaos import workflow
from benchmarks.chaos.backend import Backend
from benchmarks.chaos.evidence import gather
from benchmarks.chaos.lanes import Lanes
from benchmarks.chaos.operator import Operator
from benchmarks.chaos.outcome import Outcome
from benchmarks.chaos.plan import Plan
from benchmarks.chaos.stage import Stage, stage
from tests.support.company import accompanied

BOUND = 5
_CHECKPOINTS = sa.text("select count(*) as n from keepstep.checkpoints")


def run(plan: Plan, *, workers: int, modules: str, patience: float, mode: str, keep: Path | None = None) -> Outcome:
    """Run the plan. modules: what the workers load. mode: one of MODES. keep: a folder for the workers' logs and what
    the outside world saw.

    patience: after the last fault the cases are given up when none has written a checkpoint for that many seconds, or
    when BOUND times as many have gone. Raises whatever goes wrong with the run itself.
    """
    os.environ[workflow.SEED_VARIABLE] = str(plan.seed)
    with stage(plan, workers=workers, modules=modules, mode=mode, keep=keep) as built:
        backend, operator, lanes = Backend(plan, built), Operator(built, plan.seed), Lanes(plan, built)

        def is_over() -> bool:
            for error in (*backend.errors, *operator.errors, *lanes.errors):
                raise error
            return backend.is_done and _ended(built, plan)

        built.fleet.start(built.db)
        began = time.monotonic()
        for actor in (backend, operator, lanes):
            actor.start()
        try:
            _wait(is_over, plan.seconds, plan.seconds, built)
            lanes.stop()
            repaired = time.monotonic()
            _wait(is_over, patience, BOUND * patience, built)
            over = time.monotonic()
        finally:
            lanes.stop()
            operator.stop()
            built.fleet.close()  # what isn't over by now shall not go on while it is looked at
        return Outcome(
            seed=plan.seed,
            seconds=over - began,
            settled=over - repaired,
            evidence=gather(built, backend.started),
            struck=lanes.struck,
            held=operator.held,
            astonished=operator.astonished,
            surprises=built.patient.surprises,
            ended=built.fleet.ended,
            given_up=built.fleet.given_up,
            accompanied=accompanied(built.db),
        )


def _ended(built: Stage, plan: Plan) -> bool:
    counted = built.patient(lambda: built.client.counts(workflow.chaos.name))
    return sum(counted.get(status, 0) for status in ("completed", "failed", "cancelled")) == len(plan.cases)


def _wait(is_over: Callable[[], bool], patience: float, bound: float, built: Stage) -> None:
    """Until it is over, or nothing has come to pass for so long, or time is up. Seconds."""
    end, last, since = time.monotonic() + bound, -1, time.monotonic()
    while time.monotonic() < min(end, since + patience) and not is_over():
        time.sleep(min(0.5, max(0.0, end - time.monotonic())))
        written = built.patient(lambda: built.db.all(_CHECKPOINTS))[0].n
        if written != last:
            last, since = written, time.monotonic()
