"""`keepstep retry`."""

from __future__ import annotations

import click

from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import json_option, print_json


@click.command()
@case_arguments
@json_option
def retry(workflow: str, thread_id: str, as_json: bool) -> None:
    """Let the held case THREAD_ID of WORKFLOW go on: the same step, the same idempotency key, all retries anew.

    Exit code 4: the case isn't held.
    """
    with session.open_client() as client:
        rung = client.retry(workflow, thread_id)
        case = client.get(workflow, thread_id)
    if as_json:
        print_json({"workflow": workflow, "thread_id": thread_id, "status": case.status, "step": case.step})
    else:
        click.echo(f"{workflow}/{thread_id} goes on with {case.step or 'nothing: it has ended already'}")
    if not rung:
        click.echo(f"keepstep: it goes on when Redis at {session.broker()} can be reached again.", err=True)
