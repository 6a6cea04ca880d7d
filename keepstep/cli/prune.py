"""`keepstep prune`: delete ended cases now, by their retention or by their age."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from keepstep.checkpoint.retention import Pruned
from keepstep.cli import session
from keepstep.cli.given import Span
from keepstep.cli.printing import echo, json_option, print_json
from keepstep.steps.moves import TERMINAL


@click.command()
@click.option(
    "--workflow", metavar="WORKFLOW", help="Cases of this workflow, whatever their retention; see --older-than."
)
@click.option("--older-than", type=Span(), metavar="TIME", help="With --workflow: those that ended longer ago: 90d.")
@click.option("--status", type=click.Choice(sorted(TERMINAL)), help="With --workflow: those that ended so.")
@click.option("--dry-run", is_flag=True, help="Only say how many it would be.")
@click.option("--yes", is_flag=True, help="With --workflow: don't ask.")
@json_option
def prune(
    workflow: str | None, older_than: float | None, status: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Delete ended cases that are past their retention, in small batches, instead of leaving it to the workers.

    With --workflow and --older-than: those that ended so long ago, also where no retention was declared.
    """
    which: dict[str, Any] = {"workflow": workflow, "older_than": older_than, "status": status}
    with session.open_client() as client:
        found = client.prune(**which, dry_run=True)
        if not dry_run:
            if workflow is not None and found:
                _confirm(sum(one.cases for one in found), yes=yes)
            found = client.prune(**which)
    _tell(found, dry_run=dry_run, as_json=as_json)


def _confirm(number: int, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"prune would delete {number} cases: look at them with --dry-run, then say --yes.")
    click.confirm(f"delete {number} cases?", abort=True, err=True)


def _tell(found: Sequence[Pruned], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for one in found:
        echo(f"{one.workflow}: {one.cases} {one.status}")
    number = sum(one.cases for one in found)
    click.echo(f"{number} cases {'would go' if dry_run else 'are gone'}", err=True)
