"""How the commands print: tables for a person, JSON for a script, times in words."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
from rich import markup
from rich.console import Console
from rich.table import Table

from keepstep.steps.words import duration, printable

F = TypeVar("F", bound=Callable[..., Any])

PIPED_WIDTH = 160
"""Columns when nobody's terminal says how many there are: a line of a table is then seldom cut."""

STYLES = {
    "queued": "cyan",
    "running": "bold cyan",
    "sleeping": "blue",
    "waiting": "yellow",
    "held": "bold red",
    "completed": "green",
    "failed": "red",
    "cancelled": "dim",
}


def json_option(command: F) -> F:
    """The option --json, for every command that prints data."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(command)


def console(*, piped_width: int = PIPED_WIDTH) -> Console:
    """Stdout for a person: colours and the terminal's width only where there is a terminal."""
    width = shutil.get_terminal_size(fallback=(piped_width, 24)).columns
    return Console(highlight=False, width=width, file=sys.stdout)


def table(*columns: str) -> Table:
    """A plain table: no box, one line under its head."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(name, overflow="fold", no_wrap=False)
    return made


def escape(text: str) -> str:
    """Stored text for rich: no markup of its own, and nothing that a terminal would act upon."""
    return markup.escape(printable(text))


def echo(text: str) -> None:
    """One line with stored text in it."""
    click.echo(printable(text))


def print_json(value: Any) -> None:
    """Print as JSON: instants in ISO 8601, ids as text, and what a terminal would act upon as JSON's escapes."""
    text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False)
    click.echo(re.sub(r"[^ -~\n]", lambda c: c[0] if c[0].isprintable() else json.dumps(c[0])[1:-1], text))


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def status(name: str, *, paused: bool = False) -> str:
    """A status in its colour, as rich's markup."""
    style = STYLES.get(name, "")
    return f"[{style}]{name}[/]" + (" [dim](paused)[/]" if paused else "") if style else name


def ago(instant: datetime | None) -> str:
    """How long ago that was, or in what time it will be, by this machine's clock."""
    if instant is None:
        return "-"
    seconds = (datetime.now(UTC) - instant).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def moment(instant: datetime) -> str:
    """An instant to the second, in this machine's time zone, with how long ago it was."""
    return f"{instant.astimezone():%Y-%m-%d %H:%M:%S} ({ago(instant)})"
