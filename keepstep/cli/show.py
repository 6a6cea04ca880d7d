"""`keepstep show`: what a case is doing now, in words."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.markup import escape

from keepstep.checkpoint.reads import Case
from keepstep.cli import session
from keepstep.cli.cases import listed
from keepstep.cli.explain import explain
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import console, json_option, moment, print_json, status
from keepstep.cli.shorten import shorten


@click.command()
@case_arguments
@click.option("--full", is_flag=True, help="Print the whole state, however long it is.")
@json_option
def show(workflow: str, thread_id: str, full: bool, as_json: bool) -> None:
    """Say what the case THREAD_ID of WORKFLOW is doing now: its step, what it waits for, why it is held."""
    with session.open_client() as client:
        case = client.get(workflow, thread_id)
        waits = client.waits(workflow, thread_id)
        nodes = client.nodes() if case.status == "queued" else []
    if as_json:
        print_json({**listed(case), "state": case.state, "waits": waits})
        return
    out = console()
    _head(out, case)
    for line in explain(case, waits, nodes):
        out.print(line, soft_wrap=True)
    out.print("\n[bold]state[/]")
    for line in shorten(case.state, full=full):
        out.print(escape(line), soft_wrap=True)


def _head(out: Console, case: Case) -> None:
    title = f"[bold]{escape(case.workflow)}/{escape(case.thread_id)}[/]  {status(case.status, paused=case.paused)}"
    out.print(title, soft_wrap=True)
    rows: list[tuple[str, Any]] = [
        ("step", case.step),
        ("checkpoint", case.seq),
        ("attempt", case.attempt or None),
        ("since", moment(case.since) if case.since else None),
        ("started", moment(case.created_at)),
        ("case id", case.id),
    ]
    for name, value in rows:
        if value is not None:
            out.print(f"  [dim]{name:<10}[/] {escape(str(value))}", soft_wrap=True)
    out.print()
