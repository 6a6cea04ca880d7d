"""`keepstep dev`."""

from __future__ import annotations

import shlex
import signal
import time
from pathlib import Path
from types import FrameType

import click
from rich.markup import escape

from keepstep.cli.exits import Exit
from keepstep.cli.main import fail
from keepstep.cli.printing import console
from keepstep.config.settings import settings
from keepstep.dev.errors import DevServerError
from keepstep.dev.program import Say
from keepstep.dev.stack import Plan, Stack, flower_port

COLOURS = {"worker": "green", "flower": "magenta", "postgres": "blue", "valkey": "cyan", "dev": "bold"}
LOOK_EVERY = 0.25


@click.command()
@click.option("--home", type=click.Path(path_type=Path, file_okay=False), default=".keepstep", show_default=True,
              help="Where the data is; it stays there.")  # fmt: skip
@click.option("--no-flower", is_flag=True, help="Leave Flower out.")
@click.option("--flower-port", "port", type=click.IntRange(1, 65535), help="Default: 5555, or a free one.")
@click.option("-c", "--concurrency", type=click.IntRange(1, 1000), default=2, show_default=True,
              help="Processes of the worker.")  # fmt: skip
def dev(home: Path, no_flower: bool, port: int | None, concurrency: int) -> int:
    """Run PostgreSQL, Valkey, a worker and Flower in the foreground, until Ctrl-C.

    The workflows are those of KEEPSTEP_WORKFLOWS or --workflows; without any, the example of 42 steps runs, with the
    outside services that it calls. All listen on 127.0.0.1 only, and keep their ports as long as they are free. A
    worker that dies is started again: kill -9 it, and see.
    """
    plan = Plan(
        home=home,
        workflows=settings().workflows,
        flower=None if no_flower else flower_port(port),
        worker_options=("-c", str(concurrency), "-n", "dev@%h"),
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    say = _printer()
    say("dev", "starting")
    try:
        with Stack(plan, say) as stack:
            _greet(stack)
            try:
                _watch(stack)
            except KeyboardInterrupt:
                _deaf()
                say("dev", "stopping")
    except DevServerError as error:
        return fail(str(error), Exit.FAILED)
    say("dev", "stopped; the data stays")
    return Exit.OK


def _watch(stack: Stack) -> None:
    while True:
        stack.look_after()
        time.sleep(LOOK_EVERY)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _deaf() -> None:
    """Stopping takes seconds at the most, and a second Ctrl-C must not leave anything behind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _printer() -> Say:
    out = console()

    def say(source: str, line: str) -> None:
        out.print(f"[{COLOURS.get(source, 'dim')}]{source:<8}[/] [dim]|[/] {escape(line)}", soft_wrap=True)

    return say


def _greet(stack: Stack) -> None:
    lines = ["keepstep is up. For another terminal:", ""]
    lines += [f"  export {name}={shlex.quote(value)}" for name, value in stack.exports.items()]
    if stack.flower_url:
        lines += ["", f"Flower: {stack.flower_url}"]
    lines += ["", "Then, for instance:"]
    lines.append(
        """  keepstep start intake APP-1 --state '{"application": "APP-1"}' && keepstep show intake APP-1"""
        if stack.is_example
        else "  keepstep start WORKFLOW THREAD_ID --state '{...}' && keepstep list"
    )
    click.echo("\n".join(["", *lines, "", "Ctrl-C stops everything.", ""]))
