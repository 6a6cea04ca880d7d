"""`python -m benchmarks`: the recovery times of promise P3 and the speed, as tables."""

from __future__ import annotations

import dataclasses
import json

import click
from rich.console import Console
from rich.table import Table

from benchmarks import recovery, throughput

console = Console()


@click.command()
@click.option("--runs", default=10, show_default=True, help="deaths of each kind; the median counts")
@click.option("--cases", default=200, show_default=True, help="cases at once")
@click.option("--only", type=click.Choice(["recovery", "throughput"]), help="one of the tables")
@click.option("--json", "as_json", is_flag=True, help="one JSON line a figure")
def main(runs: int, cases: int, only: str | None, as_json: bool) -> None:
    """Measure on servers and workers started for it; nothing is left behind."""
    if only != "throughput":
        _recovery(runs, as_json)
    if only != "recovery":
        _throughput(cases, as_json)


def _recovery(runs: int, as_json: bool) -> None:
    table = Table(title=f"From the death to the step running again, in seconds ({runs} runs each)")
    for column in ("what dies", "median", "worst", "promised"):
        table.add_column(column, justify="left" if column == "what dies" else "right")
    for figure in recovery.measure(runs):
        if as_json:
            print(json.dumps(dataclasses.asdict(figure) | {"median": figure.median}), flush=True)
        table.add_row(figure.name, f"{figure.median:.2f}", f"{max(figure.seconds):.2f}", f"under {figure.bound:g}")
    if not as_json:
        console.print(table)


def _throughput(cases: int, as_json: bool) -> None:
    table = Table(title=f"{cases} cases of 40 trivial steps, 1 KiB of state")
    for column in ("pool", "workers", "concurrency", "steps/s, all at once", "ms a step, one case alone"):
        table.add_column(column, justify="left" if column == "pool" else "right")
    for pool, concurrency in (("prefork", 2), ("threads", 4), ("solo", 1)):
        speed = throughput.measure(cases=cases, pool=pool, concurrency=concurrency)
        if as_json:
            print(json.dumps(dataclasses.asdict(speed)), flush=True)
        row = (speed.pool, speed.workers, speed.concurrency, speed.steps_per_s, speed.ms_per_step)
        table.add_row(*map(str, row))
    if not as_json:
        console.print(table)


if __name__ == "__main__":
    main()
