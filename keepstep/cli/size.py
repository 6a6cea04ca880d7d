"""`keepstep size`: what takes room in the database, and what is wrong with that."""

from __future__ import annotations

from dataclasses import asdict

import click

from keepstep.checkpoint.room import Room
from keepstep.cli import session
from keepstep.cli.printing import ago, console, escape, json_option, print_json, table


@click.command()
@json_option
def size(as_json: bool) -> None:
    """Say what takes room in the database, by table and by workflow, with warnings where it grows for no reason."""
    with session.open_client() as client:
        room = client.size()
    if as_json:
        print_json({**asdict(room), "tables": [{**asdict(one), "bytes": one.bytes} for one in room.tables]})
        return
    _print(room)


def _print(room: Room) -> None:
    out = console()
    tables = table("table", "all", "rows", "large columns", "indexes", "dead rows", "vacuumed")
    for one in room.tables:
        figures = f"{human(one.bytes)}|{one.rows:,}|{human(one.toast)}|{human(one.indexes)}|{one.dead:,}".split("|")
        tables.add_row(one.name, *figures, ago(one.vacuumed))
    out.print(tables)
    about = "about " if room.estimated else ""
    workflows = table("workflow", "checkpoints", "live cases", "ended cases", "kept for ever")
    for flow in room.workflows:
        figures = f"{about}{human(flow.bytes)}|{flow.live:,}|{flow.ended:,}|{flow.for_ever:,}".split("|")
        workflows.add_row(escape(flow.workflow), *figures)
    out.print()
    out.print(workflows)
    for warning in room.warnings:
        out.print(f"\n[yellow]warning[/] {escape(warning)}", soft_wrap=True)


def human(count: int) -> str:
    """Bytes as people read them: 8.2 MiB."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
