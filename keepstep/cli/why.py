"""`keepstep why`: what a case waits for, in a sentence, and what would move it."""

from __future__ import annotations

import click
from rich.console import Console

from keepstep.checkpoint.mask import Mask
from keepstep.checkpoint.why import Why
from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import console, escape, json_option, print_json


@click.command()
@case_arguments
@json_option
def why(workflow: str, thread_id: str, as_json: bool) -> None:
    """Say what the case THREAD_ID of WORKFLOW waits for, and what would move it."""
    with session.open_client() as client:
        told = covered(client.mask(workflow, thread_id), client.why(workflow, thread_id))
    if as_json:
        print_json(told)
    else:
        print_why(console(), told)


def covered(mask: Mask, told: Why) -> Why:
    """The same without the case's secrets."""
    return mask.why(told)


def print_why(out: Console, told: Why) -> None:
    """The sentence, what belongs to it, and the commands that would move the case."""
    out.print(escape(told.sentence), soft_wrap=True)
    for line in told.details:
        out.print(f"  [dim]{escape(line)}[/]", soft_wrap=True)
    if told.moves:
        out.print(escape(told.moves), soft_wrap=True)
    for command in told.commands:
        out.print(f"  [bold]{escape(command)}[/]", soft_wrap=True)
