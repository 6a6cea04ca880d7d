"""keepstep beside its peers, in interleaved rounds on the same servers: `make bench-peers`, medians and ratios.

`PEERS` names the folder of the peers' harness, `PEERS_HOME` the one of their environments (`$PEERS/setup.sh` makes it).
Peers without an environment are left out. The servers are started for the run, unless `PEERS_PG` and `PEERS_REDIS` name
some.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks import page
from benchmarks.peer_flow import FOLDER
from benchmarks.shape import ROOT, Shape
from benchmarks.sheet import Sheet

HOME = "PEERS_HOME"
Line = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One system: how it is run in each mode. Each peer has the settings that suit it best on two cores."""

    name: str
    command: tuple[str, ...]
    folder: Path
    latency: tuple[str, ...] = ()
    throughput: tuple[str, ...] = ("--workers", "2", "--concurrency", "2")
    env: tuple[tuple[str, str], ...] = ()


SETTINGS: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    # name: environment, script, latency, throughput
    "celery": ("celery", "celery", ("--shape", "next"), ("--workers=2", "--concurrency=2", "--shape=next")),
    "celery chain": ("celery", "celery", (), ("--workers=1", "--concurrency=2")),
    "dbos": ("dbos", "dbos", (), ("--workers=2", "--concurrency=16", "--poll=0.1")),
    "langgraph": ("langgraph", "langgraph", (), ("--workers=4", "--concurrency=2")),
    "restate": ("restate", "restate", (), ("--workers=2",)),
    "absurd": ("absurd", "absurd", ("--poll=0.01",), ("--workers=4", "--concurrency=1")),
}
DEFAULT = "celery,dbos,langgraph,restate,absurd"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", default=3, show_default=True)
@click.option("--cases", default=200, show_default=True, help="at once; a tenth of them, one by one, for the latency")
@click.option("--peers", default=DEFAULT, show_default=True, help="; ".join(SETTINGS))
@click.option("--shape", "shapes", multiple=True, help="keepstep in this shape: name[:word=value,...]; repeat it")
@click.option("--env", multiple=True, help="NAME=VALUE for all shapes of keepstep")
@click.option("--modes", default="latency,throughput", show_default=True, help="recovery is the third")
@click.option("--out", type=click.Path(path_type=Path), help="append each run's JSON line to this file")
@click.option("--from", "kept", type=click.Path(path_type=Path, exists=True), help="measure nothing, show these lines")
@click.option("--markdown", is_flag=True)
@click.option("--into", type=click.Path(path_type=Path, exists=True), help="write it to this page, too")
def main(
    rounds: int,
    cases: int,
    peers: str,
    shapes: Sequence[str],
    env: Sequence[str],
    modes: str,
    out: Path | None,
    kept: Path | None,
    markdown: bool,
    into: Path | None,
) -> None:
    """Run keepstep and its peers by turns, and print one table."""
    wanted = [Shape.of(text, env) for text in shapes or ["keepstep"]]
    if into is not None and any(shape.checkout != ROOT for shape in wanted):
        raise click.UsageError("a page tells of one checkout only.")
    if kept is not None:
        lines = [json.loads(line) for line in kept.read_text().splitlines()]
    else:
        with _servers() as variables:
            ours = [_keepstep(shape) for shape in wanted]
            theirs = [found for name in filter(None, peers.split(",")) if (found := _peer(name.strip()))]
            lines = []
            for line in _rounds(rounds, cases, [*ours, *theirs], modes.split(","), variables):
                lines.append(line)
                if out is not None:
                    with out.open("a") as file:
                        file.write(json.dumps(line) + "\n")
    sheet = _sheet(lines)
    sheet.show(markdown=markdown)
    if into is not None:
        page.write(into, "peers", sheet, "benchmarks.peers")


def _rounds(
    rounds: int, cases: int, entrants: Sequence[Entrant], modes: Sequence[str], env: dict[str, str]
) -> Iterator[Line]:
    for number in range(rounds):
        for mode in modes:
            for entrant in entrants:
                line = _run(entrant, mode, cases, env)
                if line is not None:
                    yield {**line, "system": entrant.name, "round": number, "ours": entrant.name.startswith("keepstep")}


def _run(entrant: Entrant, mode: str, cases: int, env: dict[str, str]) -> Line | None:
    many = cases if mode == "throughput" else max(1, cases // 10)
    options = {"throughput": entrant.throughput, "latency": entrant.latency}.get(mode, ())
    command = [*entrant.command, f"--mode={mode}", f"--cases={many}", *options]
    process = subprocess.Popen(
        command,
        cwd=entrant.folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env, **dict(entrant.env)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, errors = process.communicate(timeout=300)
        line: Line = json.loads(out.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        for child in psutil.Process().children(recursive=True):
            child.kill()
        click.echo(f"{entrant.name} {mode}: {type(error).__name__} {errors[-500:] if process.poll() else ''}", err=True)
        return None
    shown = line.get("steps_per_s") or line.get("ms_per_step") or line.get("resume_s")
    click.echo(f"{entrant.name:24} {mode:11} {shown}", err=True)
    return line


def _keepstep(shape: Shape) -> Entrant:
    name = shape.name if shape.name.startswith("keepstep") else f"keepstep {shape.name}"
    options = shape.options
    pool = ("--pool", options["pool"]) if "pool" in options else ()
    each = tuple(word for key, value in shape.env.items() for word in ("--env", f"{key}={value}"))
    label = ("--shape", shape.name)
    size = ("--workers", options.get("workers", "2"), "--concurrency", options.get("concurrency", "2"))
    return Entrant(
        name=name,
        command=(sys.executable, "-m", "benchmarks.peer"),
        folder=shape.checkout,
        latency=(*label, *pool, *each, "--concurrency", options.get("concurrency", "2")),
        throughput=(*label, *pool, *each, *size),
        env=(("PYTHONPATH", str(shape.checkout)),),
    )


def _peer(name: str) -> Entrant | None:
    if name not in SETTINGS:
        raise click.BadParameter(f"{name!r} is none of {', '.join(SETTINGS)}.")
    environment, script, latency, throughput = SETTINGS[name]
    python = Path(os.environ[HOME], f"venv-{environment}", "bin", "python")
    if not python.exists():
        click.echo(f"{name}: left out, there is no {python}", err=True)
        return None
    return Entrant(
        name=name,
        command=(str(python), f"{script}_peer.py"),
        folder=Path(os.environ[FOLDER]),
        latency=latency,
        throughput=throughput,
    )


@contextmanager
def _servers() -> Iterator[dict[str, str]]:
    """The variables that name the servers; started here unless the environment has them."""
    for name in (FOLDER, HOME):
        if name not in os.environ:
            raise click.UsageError(f"{name} must name a folder; see docs/performance.md.")
    os.environ[FOLDER] = str(Path(os.environ[FOLDER]).resolve())
    if "PEERS_PG" in os.environ and "PEERS_REDIS" in os.environ:
        yield {}
        return
    script = Path(os.environ[FOLDER], "services.sh")
    out = subprocess.run([script, "start"], check=True, text=True, stdout=subprocess.PIPE).stdout
    try:
        yield dict(word.split("=", 1) for word in out.replace("export ", "").split())
    finally:
        subprocess.run([script, "stop"], check=False)


FIGURES = (
    ("steps/s", "throughput", "steps_per_s"),
    ("ms a step, alone", "latency", "ms_per_step"),
    ("CPU s per 1,000 steps", "throughput", "cpu_s_per_1000_steps"),
    ("WAL bytes a step", "throughput", "wal_bytes_per_step"),
    ("resumed after, s", "recovery", "resume_s"),
)


def _sheet(lines: Sequence[Line]) -> Sheet:
    systems = list(dict.fromkeys(line["system"] for line in lines))
    ours = list(dict.fromkeys(line["system"] for line in lines if line["ours"]))
    rounds = 1 + max((line["round"] for line in lines), default=0)
    figures = [figure for figure in FIGURES if any(_values(lines, s, *figure[1:]) for s in systems)]
    compared = [figure for figure in figures if figure[2] in ("steps_per_s", "ms_per_step", "cpu_s_per_1000_steps")]
    sheet = Sheet(
        title=f"keepstep and its peers, {os.cpu_count()} cores, medians of {rounds} interleaved rounds",
        columns=["system", *(name for name, _, _ in figures)]
        + [f"{name}: {our} ÷ it" for our in ours for name, _, _ in compared],
    )
    spins = sorted(spin for line in lines for spin in line.get("spin_ms", []))
    if spins:
        sheet.notes.append(
            f"A fixed piece of work took {spins[0]:g} to {spins[-1]:g} ms: the less that varies, the better."
        )
    for system in systems:
        row: list[object] = [system]
        row += [_median(list(_values(lines, system, *figure[1:]).values())) for figure in figures]
        row += [_ratio(lines, our, system, *figure[1:]) for our in ours for figure in compared]
        sheet.rows.append(row)
    return sheet


def _values(lines: Sequence[Line], system: str, mode: str, figure: str) -> dict[int, float]:
    """By round."""
    wanted = [line for line in lines if line["system"] == system and line["mode"] == mode]
    return {line["round"]: float(line[figure]) for line in wanted if line.get(figure) is not None}


def _ratio(lines: Sequence[Line], ours: str, system: str, mode: str, figure: str) -> float | None:
    """The median of the rounds' ratios."""
    mine, theirs = _values(lines, ours, mode, figure), _values(lines, system, mode, figure)
    return None if ours == system else _median([mine[n] / theirs[n] for n in mine if n in theirs])


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


if __name__ == "__main__":
    main()
