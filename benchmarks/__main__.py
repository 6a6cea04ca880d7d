"""`python -m benchmarks`: speed, costs, waiting, mixtures and the recovery times of promise P3, as tables."""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks import (
    backlog,
    branches,
    check,
    costs,
    fanning,
    growth,
    lengths,
    mixed,
    page,
    parents,
    pruning,
    recovery,
    speed,
    waiting,
)
from benchmarks.shape import ROOT, Shape
from benchmarks.sheet import Sheet

PARTS = ("speed", "costs", "waiting", "mixed", "growth", "lengths", "pruning", "backlog", "branches", "loops")
PARTS += ("parents", "check", "recovery")
DEFAULT = ("speed", "costs", "waiting", "recovery")
LISTS = {"pools": "prefork,threads,solo", "waits": "0,20,200"}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--only", "parts", multiple=True, type=click.Choice(PARTS), help=f"default: {', '.join(DEFAULT)}")
@click.option("--pools", default=LISTS["pools"], show_default=True)
@click.option("--waits", default=LISTS["waits"], show_default=True, help="milliseconds that a step waits")
@click.option("--cases", default=100, show_default=True, help="cases at once")
@click.option("--rounds", default=1, show_default=True, help="interleaved; the medians count")
@click.option("--shape", "shapes", multiple=True, help="name[:word=value,...], see benchmarks/shape.py; repeat it")
@click.option("--env", multiple=True, help="NAME=VALUE for all shapes")
@click.option("--runs", default=3, show_default=True, help="recovery: deaths of each kind")
@click.option("--json", "as_json", is_flag=True, help="one JSON line a figure, and no tables")
@click.option("--markdown", is_flag=True, help="the tables in Markdown")
@click.option("--into", type=click.Path(path_type=Path, exists=True), help="write them to this page, too")
def main(
    parts: Sequence[str],
    pools: str,
    waits: str,
    cases: int,
    rounds: int,
    shapes: Sequence[str],
    env: Sequence[str],
    runs: int,
    as_json: bool,
    markdown: bool,
    into: Path | None,
) -> None:
    """Measure on servers and workers started for it; nothing is left behind."""
    wanted = [Shape.of(text, env) for text in shapes or ["default"]]
    if any(shape.checkout != ROOT for shape in wanted):
        raise click.UsageError("checkout= is for `python -m benchmarks.peers`.")
    named, milliseconds = pools.split(","), [int(word) for word in waits.split(",")]
    bench = Bench(wanted, rounds, as_json, markdown, into)
    for part in parts or DEFAULT:
        match part:
            case "speed":
                each = [(pool, wait) for wait in milliseconds for pool in named]
                bench.run(part, _speed(), each, lambda s, p, w: speed.measure(s, p, w, cases=cases), _speed_row)
            case "costs":
                bench.run(part, _costs(), [(pool,) for pool in named], costs.measure, _costs_row)
            case "waiting":
                bench.run(part, _waiting(), [("sync",), ("async",)], waiting.measure, _waiting_row)
            case "mixed":
                bench.run(part, _mixed(), [(named[0], mix) for mix in mixed.MIXES], mixed.measure, _mixed_row)
            case "growth":
                bench.run(part, _growth(), [(named[0], size) for size in growth.SIZES], growth.measure, _growth_row)
            case "lengths":
                bench.run(part, _lengths(), [(each,) for each in lengths.LENGTHS], lengths.measured, _lengths_row)
            case "pruning":
                bench.run(part, _pruning(), [(named[0],)], pruning.measure, _pruning_row)
            case "backlog":
                bench.run(part, _backlog(), [(named[0],)], backlog.measure, _backlog_row)
            case "branches":
                each = [(named[0], kind, count) for count in branches.SIZES for kind in branches.LOADS]
                bench.run(part, _branches(), each, branches.measure, _branches_row)
            case "loops":
                bench.run(part, _loops(), [(named[0], most) for most in fanning.LOOPS], branches.loop, _loops_row)
            case "parents":
                bench.run(part, _parents(), [(named[0],)], parents.measure, _parents_row)
            case "check":
                bench.run(part, _check(), [(named[0], kind) for kind in check.KINDS], check.measure, _check_row)
            case "recovery":
                bench.show(part, _recovery(runs), recovery.measure(runs), _recovery_row)


class Bench:
    """Runs measurements by turns, and prints them."""

    def __init__(self, shapes: Sequence[Shape], rounds: int, as_json: bool, markdown: bool, into: Path | None):
        self._shapes, self._rounds, self._json, self._markdown = shapes, rounds, as_json, markdown
        self._into = into

    def run(
        self,
        part: str,
        sheet: Sheet,
        each: Sequence[tuple[Any, ...]],
        measure: Callable[..., Any],
        row: Callable[[Any], Sequence[object]],
    ) -> None:
        """Each row in each shape, round after round."""
        if len(self._shapes) > 1:
            sheet.columns = ["shape", *sheet.columns]
        cells = [(shape, given) for given in each for shape in self._shapes]
        taken: list[list[Any]] = [[] for _ in cells]
        for _ in range(self._rounds):
            for figures, (shape, given) in zip(taken, cells, strict=True):
                click.echo(f"{part}, {shape.name}: {', '.join(map(str, given))}", err=True)
                figures.append(measure(shape, *given))
                if self._json:
                    print(json.dumps(self._line(shape, figures[-1])), flush=True)
        for figures, (shape, _) in zip(taken, cells, strict=True):
            named = [shape.name] if len(self._shapes) > 1 else []
            sheet.rows.append([*named, *_medians([row(figure) for figure in figures])])
        self._print(part, sheet)

    def show(self, part: str, sheet: Sheet, figures: Iterable[Any], row: Callable[[Any], Sequence[object]]) -> None:
        """What is measured once."""
        click.echo(part, err=True)
        for figure in figures:
            if self._json:
                print(json.dumps(self._line(None, figure)), flush=True)
            sheet.rows.append(row(figure))
        self._print(part, sheet)

    def _print(self, part: str, sheet: Sheet) -> None:
        if not self._json:
            sheet.show(markdown=self._markdown)
        if self._into is not None:
            page.write(self._into, part, sheet, "benchmarks", "--only", part)

    def _line(self, shape: Shape | None, figure: Any) -> dict[str, Any]:
        named = {} if shape is None else {"shape": shape.name, "env": shape.env}
        return {"part": type(figure).__name__.lower(), **named, **dataclasses.asdict(figure)}


def _medians(rows: Sequence[Sequence[object]]) -> list[object]:
    """Of each column; what is no number is the same in all rounds."""
    first = rows[0]
    return [
        statistics.median([float(str(row[n])) for row in rows]) if isinstance(value, float) else value
        for n, value in enumerate(first)
    ]


# ----------------------------------------------------------------------------------------- the tables, and their rows
def _speed() -> Sheet:
    return Sheet(
        title=f"Speed: state of 1 KiB, {os.cpu_count()} cores; the servers run on them too",
        columns=[
            "pool, workers × at once",
            "a step waits, ms",
            "steps/s",
            "% of ideal",
            "ms a step, alone",
            "queued ms, median",
            "queued ms, p99",
            "CPU s per 1,000",
            "client",
            "main",
            "pool",
            "Redis",
            "PostgreSQL",
            "MiB a worker",
        ],
    )


def _speed_row(it: speed.Speed) -> Sequence[object]:
    ideal = None if it.ideal is None else it.ideal * 100
    cpu = it.cpu
    split = (cpu.total, cpu.client, cpu.main, cpu.pool, cpu.redis, cpu.postgres)
    return str(it.crew), it.wait_ms, it.per_s, ideal, it.lone_ms, it.queued_ms, it.queued_p99_ms, *split, it.mib


def _costs() -> Sheet:
    named = ["statements", "round trips", "flushes", "WAL bytes", "stored bytes", "Redis commands"]
    return Sheet(title="What a step costs, all cases at once", columns=["pool, workers × at once", *named])


def _costs_row(it: costs.Costs) -> Sequence[object]:
    bytes_ = it.wal_bytes, it.stored_bytes
    return str(it.crew), it.statements, it.round_trips, it.flushes, *bytes_, it.commands


def _waiting() -> Sheet:
    title = f"Steps that wait {waiting.SECONDS * 1000:g} ms for an API, in one worker"
    return Sheet(title=title, columns=["pool", "step", "steps/s", "% of ideal", "connections", "MiB"])


def _waiting_row(it: waiting.Waiting) -> Sequence[object]:
    return str(it.crew), it.kind, it.per_s, it.ideal * 100, it.connections, it.mib


def _mixed() -> Sheet:
    title = f"When quick cases are over, of {mixed.CASES} at once, in seconds"
    return Sheet(title=title, columns=["pool", "slow ones among them", "median", "last"])


def _mixed_row(it: mixed.Mixed) -> Sequence[object]:
    return str(it.crew), it.slow, it.median_s, it.last_s


def _growth() -> Sheet:
    columns = ["load", "pool", "steps/s", "CPU s per 1,000", "WAL bytes a step", "stored bytes a step"]
    return Sheet(title="How the cost of a step grows", columns=columns)


def _growth_row(it: growth.Growth) -> Sequence[object]:
    return str(it.size), it.crew.pool, it.per_s, it.cpu, it.wal_bytes, it.stored_bytes


def _lengths() -> Sheet:
    columns = ["case", "stored bytes a step", "payload bytes", "WAL bytes", "ms, first tenth", "ms, last tenth"]
    return Sheet(title="A step of short and of long cases, by hand", columns=[*columns, "ms to load near the end"])


def _lengths_row(it: lengths.Growth) -> Sequence[object]:
    return str(it.length), it.stored, it.payload, it.wal, it.first_ms, it.last_ms, it.resume_ms


def _pruning() -> Sheet:
    columns = ["pool", "steps/s without", "steps/s beside it", "slower by %", "cases pruned a second"]
    return Sheet(title=f"Beside {pruning.ENDED:,} ended cases that leave", columns=columns)


def _pruning_row(it: pruning.Pruning) -> Sequence[object]:
    return str(it.crew), it.without, it.beside, it.slower, it.pruned_per_s


def _backlog() -> Sheet:
    columns = ["pool", "backlog", "stored a second", "steps/s without", "steps/s beside it"]
    return Sheet(title="Beside a backlog of queued cases", columns=columns)


def _backlog_row(it: backlog.Backlog) -> Sequence[object]:
    return str(it.crew), it.cases, it.stored_per_s, it.before, it.behind


def _branches() -> Sheet:
    columns = ["pool", "what", "how many", "steps/s", "sessions that wait for a lock"]
    return Sheet(title="Branches of one case, beside separate cases of one step", columns=columns)


def _branches_row(it: branches.Branches) -> Sequence[object]:
    return str(it.crew), it.kind, it.count, it.per_s, it.blocked


def _parents() -> Sheet:
    columns = [
        "pool",
        "cases that wait",
        "idle, % of a core",
        "idle beside them",
        "steps/s without",
        "steps/s beside them",
    ]
    return Sheet(title="Beside cases that wait for their branches", columns=columns)


def _parents_row(it: parents.Parents) -> Sequence[object]:
    return str(it.crew), it.parents, it.alone, it.beside, it.before, it.after


def _loops() -> Sheet:
    columns = ["pool", "steps", "max_visits", "ms a step, the first hundred", "ms a step, the last hundred"]
    return Sheet(title="A loop of one case", columns=columns)


def _loops_row(it: branches.Loop) -> Sequence[object]:
    return str(it.crew), it.steps, it.max_visits or "none", it.first_ms, it.last_ms


def _check() -> Sheet:
    columns = ["of", "how many", "seconds", "with upcasters", "MiB at the most"]
    return Sheet(title="`keepstep check`", columns=columns)


def _check_row(it: check.Check) -> Sequence[object]:
    return check.KINDS[it.kind], it.many, it.seconds, it.upcast, it.mib


def _recovery(runs: int) -> Sheet:
    title = f"From the death to the step running again, in seconds ({runs} runs each)"
    return Sheet(title=title, columns=["what dies", "median", "worst", "promised"])


def _recovery_row(it: recovery.Figure) -> Sequence[object]:
    return it.name, it.median, max(it.seconds), f"under {it.bound:g}"


if __name__ == "__main__":
    main()
