"""`keepstep diff`: what changed in a case's state between two of its checkpoints."""

from __future__ import annotations

import json
from typing import Any

import click

from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import console, escape, json_option, print_json
from keepstep.steps.words import one_line

SIGNS = {"add": ("+", "green"), "remove": ("-", "red"), "replace": ("~", "yellow")}
WIDEST = 400


@click.command()
@case_arguments
@click.argument("a", type=int)
@click.argument("b", type=int)
@json_option
def diff(workflow: str, thread_id: str, a: int, b: int, as_json: bool) -> None:
    """Show what changed in the state of THREAD_ID of WORKFLOW from checkpoint A to checkpoint B.

    The numbers are those that `keepstep history` shows. With --json: RFC 6902 operations, which turn A into B.
    """
    with session.open_client() as client:
        operations = client.mask(workflow, thread_id).operations(client.diff(workflow, thread_id, a, b))
    if as_json:
        print_json(operations)
    elif operations:
        out = console()
        for operation in operations:
            out.print(_line(operation), soft_wrap=True)
    else:
        click.echo(f"the state is the same at {a} and {b}", err=True)


def _line(operation: dict[str, Any]) -> str:
    sign, colour = SIGNS[operation["op"]]
    path = operation["path"] or "/"
    if operation["op"] == "remove":
        return f"[{colour}]{sign} {escape(path)}[/]"
    value = one_line(json.dumps(operation["value"], ensure_ascii=False), WIDEST)
    return f"[{colour}]{sign} {escape(path)}[/]  {escape(value)}"
