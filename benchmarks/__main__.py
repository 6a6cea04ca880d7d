"""`python -m benchmarks`: speed, costs, waiting, mixtures and the recovery times of promise P3, as tables."""

from __future__ import annotations

import dataclasses
import json
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
    vacuum,
    waiting,
)
from benchmarks.shape import ROOT, Shape
from benchmarks.sheet import Sheet
from benchmarks.tables import TABLES

PARTS = ("speed", "costs", "waiting", "mixed", "growth", "lengths", "pruning", "backlog", "branches", "loops")
PARTS += ("parents", "check", "vacuum", "recovery")
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
                bench.run(part, each, lambda s, p, w: speed.measure(s, p, w, cases=cases))
            case "costs":
                bench.run(part, [(pool,) for pool in named], costs.measure)
            case "waiting":
                bench.run(part, [("sync",), ("async",)], waiting.measure)
            case "mixed":
                bench.run(part, [(named[0], mix) for mix in mixed.MIXES], mixed.measure)
            case "growth":
                bench.run(part, [(named[0], size) for size in growth.SIZES], growth.measure)
            case "lengths":
                bench.run(part, [(each,) for each in lengths.LENGTHS], lengths.measured)
            case "pruning":
                bench.run(part, [(named[0],)], pruning.measure)
            case "backlog":
                bench.run(part, [(named[0],)], backlog.measure)
            case "branches":
                each = [(named[0], kind, count) for count in branches.SIZES for kind in branches.LOADS]
                bench.run(part, each, branches.measure)
            case "loops":
                bench.run(part, [(named[0], most) for most in fanning.LOOPS], branches.loop)
            case "parents":
                bench.run(part, [(named[0],)], parents.measure)
            case "check":
                bench.run(part, [(named[0], kind) for kind in check.KINDS], check.measure)
            case "vacuum":
                bench.run(part, [(kind,) for kind in vacuum.KINDS], vacuum.measure)
            case "recovery":
                bench.show(part, recovery.measure(runs), runs)


class Bench:
    """Runs measurements by turns, and prints them."""

    def __init__(self, shapes: Sequence[Shape], rounds: int, as_json: bool, markdown: bool, into: Path | None):
        self._shapes, self._rounds, self._json, self._markdown = shapes, rounds, as_json, markdown
        self._into = into

    def run(
        self,
        part: str,
        each: Sequence[tuple[Any, ...]],
        measure: Callable[..., Any],
    ) -> None:
        """Each row in each shape, round after round."""
        sheet, row = TABLES[part].sheet(), TABLES[part].row
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

    def show(self, part: str, figures: Iterable[Any], *about: object) -> None:
        """What is measured once. about: for the table's title."""
        sheet, row = TABLES[part].sheet(*about), TABLES[part].row
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


if __name__ == "__main__":
    main()
