"""`keepstep start`."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from keepstep.cli import session
from keepstep.cli.given import JsonValue, case_arguments
from keepstep.cli.printing import json_option, print_json


@click.command()
@case_arguments
@click.option(
    "--state",
    type=JsonValue(),
    default=None,
    metavar="JSON",
    help="The initial state: JSON, @file, or - for stdin. Default: {}.",
)
@json_option
def start(workflow: str, thread_id: str, state: Any, as_json: bool) -> None:
    """Start the case THREAD_ID of WORKFLOW.

    Idempotent: the same thread id with the same state returns the same case; with another state it is refused (exit
    code 4). Needs PostgreSQL only: with Redis down, the case is stored, and starts when Redis is back.
    """
    given = {} if state is None else state
    if not isinstance(given, dict):
        raise click.BadParameter("the state must be a JSON object.", param_hint="--state")
    with session.open_client(workflows=None) as client:
        started = client.start(workflow, thread_id, given)
    if as_json:
        print_json(dataclasses.asdict(started))
    else:
        what = "started" if started.new else "was there already, with the same state"
        click.echo(f"{started.workflow}/{started.thread_id} {what}")
    if started.new and not started.rung:
        click.echo(
            f"keepstep: the case is stored; it starts when Redis at {session.broker()} can be reached again.", err=True
        )
