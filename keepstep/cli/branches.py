"""`keepstep branches`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from keepstep.checkpoint.fan_reads import BranchView
from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import console, escape, json_option, print_json, status, table
from keepstep.steps.moves import Status
from keepstep.steps.words import one_line


@click.command()
@case_arguments
@click.option("--seq", type=int, help="Of the fan-out at this checkpoint, instead of the latest.")
@click.option("--status", "wanted", type=click.Choice([str(s) for s in Status]), help="Only in this status.")
@click.option("--after", type=int, default=-1, help="Only those behind this number.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At the most.")
@json_option
def branches(
    workflow: str, thread_id: str, seq: int | None, wanted: str | None, after: int, limit: int, as_json: bool
) -> None:
    """List the branches of the case THREAD_ID of WORKFLOW. Each is a case of its own, for all other commands."""
    with session.open_client() as client:
        found = client.branches(workflow, thread_id, seq=seq, status=wanted, after=after, limit=limit + 1)
    more, found = len(found) > limit, found[:limit]
    if as_json:
        print_json(found)
    elif found:
        console().print(_table(found))
    else:
        click.echo("no branches match" if wanted or seq is not None or after >= 0 else "no branches", err=True)
    if more:
        click.echo(f"there are more: --after {found[-1].number}", err=True)


def _table(found: Sequence[BranchView]) -> Any:
    made = table("NUMBER", "STATUS", "STEP", "WORKFLOW", "THREAD ID", "WHY")
    for branch in found:
        made.add_row(
            str(branch.number),
            status(branch.status) if branch.status else "[dim]to begin[/]",
            escape(branch.step or "-"),
            escape(branch.workflow or "-"),
            escape(branch.thread_id or branch.name or "-"),
            escape(_why(branch)),
        )
    return made


def _why(branch: BranchView) -> str:
    error = branch.error or {}
    return one_line(": ".join(str(error[name]) for name in ("why", "message") if error.get(name)), 60)
