"""`keepstep start`."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from keepstep.cli import session
from keepstep.cli.given import JsonValue, Span, case_arguments, tag_option
from keepstep.cli.printing import echo, json_option, print_json


@click.command()
@case_arguments
@click.option(
    "--state",
    type=JsonValue(),
    default=None,
    metavar="JSON",
    help="The initial state: JSON, @file, or - for stdin. Default: {}.",
)
@click.option(
    "--if-exists",
    type=click.Choice(["return", "raise", "restart"]),
    default="return",
    show_default=True,
    help="If there is such a case: return it if its input is the same, refuse, or restart it if it has ended.",
)
@tag_option("Kept with the case, for `list --tag`; several times for several.")
@click.option("--delay", type=Span(), metavar="TIME", help="Before the first step: 90s, 15min, 2h, 3d.")
@click.option("--priority", type=click.IntRange(0, 9), help="9 is the most urgent.  [default: 5]")
@click.option("--queue", metavar="NAME", help="For all its steps, instead of theirs.")
@json_option
def start(workflow: str, thread_id: str, state: Any, as_json: bool, **terms: Any) -> None:
    """Start the case THREAD_ID of WORKFLOW.

    Idempotent: the same thread id with the same state returns the same case; with another state it is refused (exit
    code 4). Needs PostgreSQL only: with Redis down, the case is stored, and starts when Redis is back.
    """
    given = {} if state is None else state
    if not isinstance(given, dict):
        raise click.BadParameter("the state must be a JSON object.", param_hint="--state")
    with session.open_client(workflows=None) as client:
        started = client.start(workflow, thread_id, given, **terms)
    if as_json:
        shown = dataclasses.asdict(started)
        shown.pop("error")
        print_json(shown)
    else:
        known = "was restarted" if started.restarted else "was there already, with the same state"
        what = "started" if started.new else known
        echo(f"{started.workflow}/{started.thread_id} {what}")
    if started.new and not started.rung and not terms["delay"]:
        click.echo(
            f"keepstep: the case is stored; it starts when Redis at {session.broker()} can be reached again.", err=True
        )
