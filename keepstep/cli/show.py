"""`keepstep show`: what a case is doing now, in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from rich.console import Console

from keepstep.checkpoint.reads import Case
from keepstep.cli import session
from keepstep.cli.cases import listed
from keepstep.cli.given import case_arguments
from keepstep.cli.history import code
from keepstep.cli.printing import console, escape, json_option, moment, print_json, status
from keepstep.cli.shorten import shorten
from keepstep.cli.why import covered, print_why

SHOWN = 1000
"""Branches of the latest fan-out that JSON shows."""
LAST = 5
"""Items of a log that a person is shown."""


@click.command()
@case_arguments
@click.option("--full", is_flag=True, help="Print the whole state, however long it is.")
@json_option
def show(workflow: str, thread_id: str, full: bool, as_json: bool) -> None:
    """Say what the case THREAD_ID of WORKFLOW is doing now: its step, what it waits for, why it is held."""
    with session.open_client() as client:
        case = client.get(workflow, thread_id, last=None if full or as_json else LAST)
        waits = client.waits(workflow, thread_id)
        told = client.why(workflow, thread_id)
        mask = client.mask(workflow, thread_id)
        written = client.written_by(workflow, thread_id)
        branches = client.branches(workflow, thread_id, limit=SHOWN) if as_json else ()
    state = mask.state(case.state)
    told = covered(mask, told)
    if as_json:
        shown = {**listed(case), "waits": waits, "branches": [asdict(branch) for branch in branches]}
        print_json({**mask.json(shown), **written, "state": state, "why": str(told)})
        return
    out = console()
    _head(out, case, code(written))
    print_why(out, told)
    out.print("\n[bold]state[/]")
    for line in shorten(state, full=full):
        out.print(escape(line), soft_wrap=True)


def _head(out: Console, case: Case, written: str) -> None:
    title = f"[bold]{escape(case.workflow)}/{escape(case.thread_id)}[/]  {status(case.status, paused=case.paused)}"
    out.print(title, soft_wrap=True)
    rows: list[tuple[str, Any]] = [
        ("branch of", case.parent and "/".join(case.parent)),
        ("step", case.step),
        ("checkpoint", case.seq),
        ("written by", written or None),
        ("attempt", case.attempt or None),
        ("queue", case.queue),
        ("priority", case.priority),
        ("tags", ", ".join(f"{name}={value}" for name, value in case.tags.items()) or None),
        ("since", moment(case.since) if case.since else None),
        ("started", moment(case.created_at)),
        ("case id", case.id),
    ]
    for name, value in rows:
        if value is not None:
            out.print(f"  [dim]{name:<10}[/] {escape(str(value))}", soft_wrap=True)
    out.print()
