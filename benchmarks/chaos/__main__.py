"""`python -m benchmarks.chaos`: break everything that can break, at random, and see whether a promise does."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
from pathlib import Path

import click
from rich.console import Console

from benchmarks.chaos import outside, report
from benchmarks.chaos.modes import MODES
from benchmarks.chaos.plan import FAULTS, make_plan
from benchmarks.chaos.run import run

MUTANTS = ("unfenced", "sweepless")


@click.command()
@click.option("--seconds", default=600.0, show_default=True, help="for which faults strike")
@click.option("--cases", default=1000, show_default=True, help="of 42 steps each")
@click.option("--workers", default=3, show_default=True, help="with processes; one with threads comes on top")
@click.option("--seed", type=int, help="of everything that is random; printed, so that it can be given again")
@click.option("--lease", default=10.0, show_default=True, help="seconds; faults come quicker when it is shorter")
@click.option("--slowness", default=1.0, show_default=True, help="of calls; slow ones are hit more often")
@click.option("--patience", default=60.0, show_default=True, help="seconds without a checkpoint: given up")
@click.option("--mode", type=click.Choice(list(MODES)), default="batches", show_default=True, help="of the workers")
@click.option("--only", type=click.Choice(list(FAULTS)), multiple=True, help="this fault, and no other; repeatable")
@click.option("--mutant", type=click.Choice(MUTANTS), help="break the engine in this way first; the run must fail")
@click.option("--keep", type=click.Path(path_type=Path), help="a folder for the workers' logs and the cases' histories")
@click.option("--json", "as_json", is_flag=True, help="one line of JSON instead of the table")
def main(
    seconds: float,
    cases: int,
    workers: int,
    seed: int | None,
    lease: float,
    slowness: float,
    patience: float,
    mode: str,
    only: tuple[str, ...],
    mutant: str | None,
    keep: Path | None,
    as_json: bool,
) -> None:
    """Run cases under faults on servers and workers of the run's own. Exit code 1 if a promise was broken."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    os.environ[outside.SLOWNESS_VARIABLE] = str(slowness)  # which the workers inherit
    modules = f"benchmarks.chaos.mutants.{mutant}" if mutant else "benchmarks.chaos.workflow"
    plan = make_plan(seed=seed, seconds=seconds, cases=cases, lease=lease, only=only)
    outcome = run(plan, workers=workers, modules=modules, patience=patience, mode=mode, keep=keep)
    if keep is not None:
        for case in outcome.evidence:
            (keep / f"{case.thread_id}.txt").write_text("\n".join(report.story(case)))
    if as_json:
        print(json.dumps(report.figures(outcome)))
    else:
        Console(width=110).print(report.table(outcome))
    if outcome.flaws or outcome.surprises or outcome.ended:
        surprises = [f"error of the client, {count} times: {name}" for name, count in outcome.surprises.items()]
        for line in (*report.offenders(outcome), *surprises, *outcome.ended, f"seed {seed}"):
            print(line, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
