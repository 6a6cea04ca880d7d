"""`keepstep demo`."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from types import FrameType
from typing import Any

import click
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from keepstep.cli.exits import Exit
from keepstep.cli.main import fail
from keepstep.cli.printing import console, json_option, print_json, table
from keepstep.dev.demo import SLOW_STEP, STEPS, Demo, DemoFailedError
from keepstep.dev.demo_facts import Facts, Stage
from keepstep.dev.demo_verdicts import Verdict, judge
from keepstep.dev.errors import DevServerError
from keepstep.steps.words import duration

WIDTH = 80


@click.command()
@json_option
def demo(as_json: bool) -> int:
    """Watch a case of 42 steps survive the kill of its worker at step 34, and a wait for a person.

    Starts a PostgreSQL, a Valkey, the outside services and two workers of its own, kills one of them with SIGKILL in
    the middle of a slow call, and prints what became of the case. Takes some ten seconds, and leaves nothing running.
    Exit code 1: a promise was not kept.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    began = time.monotonic()
    out = console(piped_width=WIDTH)
    try:
        with Screen(out, began, silent=as_json) as screen:
            facts = Demo(screen.tell, screen.step).run()
    except DevServerError as error:
        if isinstance(error, DemoFailedError):
            click.echo(error.log, err=True)
        return fail(str(error), Exit.FAILED)
    verdicts, took = judge(facts, STEPS, SLOW_STEP), time.monotonic() - began
    if as_json:
        print_json(_as_json(facts, verdicts, took))
    else:
        _print(out, facts, verdicts, took)
    return Exit.OK if all(verdict.kept for verdict in verdicts) else Exit.FAILED


class Screen:
    """What is seen while it runs: a line for each event and, on a terminal, a bar with the current step."""

    def __init__(self, out: Console, began: float, *, silent: bool):
        self._out, self._began, self._silent = out, began, silent
        self._at = (0, "")
        self._live: Live | None = None
        if out.is_terminal and not silent:
            self._live = Live(console=out, get_renderable=self._bar, refresh_per_second=10, transient=True)

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tell(self, line: str) -> None:
        """Print one line, with the time since the beginning."""
        if not self._silent:
            self._out.print(f"[dim]{time.monotonic() - self._began:5.1f} s[/]  {escape(line)}", soft_wrap=True)

    def step(self, number: int, name: str) -> None:
        """Move the bar."""
        self._at = (number, name)

    def _bar(self) -> Group:
        number, name = self._at
        if not number:
            return Group()
        row = Table.grid(padding=(0, 1))
        row.add_row(Text(f"{number:>2}/{len(STEPS)}"), ProgressBar(len(STEPS), number, width=30), Text(name, "bold"))
        return Group(row)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _print(out: Console, facts: Facts, verdicts: list[Verdict], took: float) -> None:
    out.print(f"\n[bold]timeline[/] of intake/{facts.case.thread_id}")
    out.print(_timeline(facts.stages))
    _figures(out, facts)
    out.print("\n[bold]promises[/]")
    for verdict in verdicts:
        mark = "[green]kept  [/]" if verdict.kept else "[bold red]BROKEN[/]"
        out.print(f"  {mark} {verdict.promise}", soft_wrap=True)
        out.print(f"         [dim]{escape(verdict.figure)}[/]", soft_wrap=True)
    broken = sum(not verdict.kept for verdict in verdicts)
    end = "all promises kept" if not broken else f"{broken} of {len(verdicts)} promises broken"
    out.print(f"\n{end}; {took:.1f} s in all, nothing is left running")


def _timeline(stages: Any) -> Table:
    made = table("#", "STEP", "AT", "TOOK", "ATTEMPTS", "CALLS", "EFFECTS")
    for column in made.columns[2:]:
        column.justify = "right"
    for stage in stages:
        made.add_row(*_row(stage), style="bold yellow" if stage.attempts > 1 else "")
    return made


def _row(stage: Stage) -> list[str]:
    name = stage.name if stage.kind == "step" else f"({stage.kind}: {stage.name})"
    number, attempts = ("", "") if stage.number is None else (str(stage.number), str(stage.attempts))
    dots: Callable[[int], str] = lambda count: str(count) if count else ""  # noqa: E731
    took = duration(stage.took) if stage.kind == "step" else ""
    return [number, escape(name), f"+{stage.at:.2f} s", took, attempts, dots(stage.calls), dots(stage.effects)]


def _figures(out: Console, facts: Facts) -> None:
    most = max(key["raw"] for key in facts.keys.values())
    effects = sorted({key["effects"] for key in facts.keys.values()})
    rows = [
        ("stood still", f"{facts.stood_still:.2f} s, from the kill until step 34 was running again"),
        ("of these", f"{max(0.0, facts.after_ready):.2f} s after the new worker was ready"),
        ("outside calls", f"{facts.calls}, under {len(facts.keys)} idempotency keys"),
        ("under one key", f"at most {most} calls, {' or '.join(map(str, effects))} effect"),
    ]
    out.print()
    for name, value in rows:
        out.print(f"  [dim]{name:<14}[/] {value}", soft_wrap=True)


def _as_json(facts: Facts, verdicts: list[Verdict], took: float) -> dict[str, Any]:
    return {
        "ok": all(verdict.kept for verdict in verdicts),
        "seconds": round(took, 3),
        "thread_id": facts.case.thread_id,
        "status": facts.case.status,
        "stood_still_seconds": round(facts.stood_still, 3),
        "after_worker_ready_seconds": round(facts.after_ready, 3),
        "outside_calls": facts.calls,
        "keys": facts.keys,
        "lost_attempts": [{"step": step, "outcome": outcome} for step, outcome in facts.lost_attempts],
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "timeline": [asdict(stage) for stage in facts.stages],
    }
