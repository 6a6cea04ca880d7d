"""`keepstep list`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from keepstep.checkpoint.reads import Case
from keepstep.cli import session
from keepstep.cli.given import Span, tag_option
from keepstep.cli.printing import ago, console, escape, json_option, print_json, status, table
from keepstep.steps.moves import Status
from keepstep.steps.words import one_line


@click.command("list")
@click.option("--workflow", help="Only this workflow's.")
@click.option("--status", "wanted", type=click.Choice([str(s) for s in Status]), help="Only in this status.")
@click.option("--step", help="Only those that stand at this step.")
@tag_option("Only those with this tag; several times for several.")
@click.option("--older-than", type=Span(), metavar="TIME", help="Only those at their step, or ended, for longer: 2h.")
@click.option("--error", metavar="TEXT", help="Only those held, backing off or failed with this in the error.")
@click.option("--begins", metavar="TEXT", help="Only those whose thread id begins with this.")
@click.option("--parent", nargs=2, metavar="WORKFLOW THREAD_ID", help="Only branches of this case.")
@click.option("--cursor", help="Go on behind a page: it says with which.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At the most.")
@json_option
def list_cases(wanted: str | None, limit: int, cursor: str | None, as_json: bool, **filters: Any) -> None:
    """List cases, the newest first, without their states."""
    with session.open_client() as client:
        found = client.list(status=wanted, cursor=cursor, limit=limit, **filters)
    if as_json:
        print_json([listed(case) for case in found])
    elif found:
        console().print(_table(found))
    else:
        click.echo("no cases match" if wanted or cursor or any(filters.values()) else "no cases", err=True)
    if found.cursor:
        click.echo(f"there are more: --cursor {found.cursor}", err=True)


def listed(case: Case) -> dict[str, Any]:
    """A case as JSON in lists: what identifies it and where it stands."""
    names = (
        "id workflow thread_id parent status paused step seq queue priority tags attempt reason error "
        "created_at finished_at since due_at"
    )
    return {name: getattr(case, name) for name in names.split()}


def _table(cases: Sequence[Case]) -> Any:
    made = table("WORKFLOW", "THREAD ID", "STATUS", "STEP", "SINCE", "WHY")
    for case in cases:
        made.add_row(
            escape(case.workflow),
            escape(case.thread_id),
            status(case.status, paused=case.paused),
            escape(case.step or "-"),
            ago(case.since),
            escape(_why(case)),
        )
    return made


def _why(case: Case) -> str:
    error = case.error or case.reason or {}
    parts = [str(error[name]) for name in ("why", "message") if error.get(name)]
    return one_line(": ".join(parts), 60)
