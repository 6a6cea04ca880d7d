"""`keepstep inbox`, `keepstep approve`, `keepstep reject`: what people are asked, and their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import click

from keepstep.checkpoint.waits import Asked
from keepstep.cli import session
from keepstep.cli.exits import Exit
from keepstep.cli.given import account, case_arguments
from keepstep.cli.printing import ago, console, escape, json_option, print_json, table
from keepstep.cli.signal import tell, waited_for
from keepstep.steps.words import one_line

F = TypeVar("F", bound=Callable[..., Any])


@click.command()
@click.option("--workflow", help="Only this workflow's.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At the most.")
@json_option
def inbox(workflow: str | None, limit: int, as_json: bool) -> None:
    """List the decisions that cases wait for, the oldest first."""
    with session.open_client() as client:
        found = [
            replace(asked, prompt=client.mask(asked.workflow, asked.thread_id).json(asked.prompt))
            for asked in client.inbox(workflow=workflow, limit=limit)
        ]
    if as_json:
        print_json(list(found))
    elif found:
        _show(found)
    else:
        click.echo("nobody is waited for", err=True)


def _show(found: Sequence[Asked]) -> None:
    shown = table("CASE", "NAME", "ASKED", "UNTIL", "VOTES", "DIGEST", "PROMPT")
    for asked in found:
        shown.add_row(
            escape(f"{asked.workflow}/{asked.thread_id}"),
            escape(asked.name),
            ago(asked.opened_at),
            asked.deadline.strftime("%Y-%m-%d %H:%M UTC") if asked.deadline else "",
            f"{asked.votes}/{asked.approvers}" if asked.approvers > 1 else "",
            asked.digest or "",
            escape(one_line(str(asked.prompt))) if asked.prompt is not None else "",
        )
    console().print(shown)


def verdict_options(command: F) -> F:
    """The options of a verdict."""
    for option in (
        click.option("--digest", help="Of what was shown (see inbox): refused if something else is being asked."),
        click.option("--note", metavar="TEXT", help="Why."),
        click.option("--actor", metavar="WHO", default=account, help="Default: your user name."),
        click.option("--name", default="approval", show_default=True, help="The signal's name."),
    ):
        command = option(command)
    return command


@click.command()
@case_arguments
@verdict_options
@json_option
def approve(workflow: str, thread_id: str, as_json: bool, **verdict: Any) -> int:
    """Approve what the case THREAD_ID of WORKFLOW asks."""
    return _decide(workflow, thread_id, as_json, verdict, approved=True)


@click.command()
@case_arguments
@verdict_options
@json_option
def reject(workflow: str, thread_id: str, as_json: bool, **verdict: Any) -> int:
    """Reject what the case THREAD_ID of WORKFLOW asks; one refusal is enough."""
    return _decide(workflow, thread_id, as_json, verdict, approved=False)


def _decide(workflow: str, thread_id: str, as_json: bool, verdict: dict[str, Any], *, approved: bool) -> Exit:
    if verdict["actor"] is None:
        raise click.UsageError("this account has no name: say who decides, with --actor WHO.")
    with session.open_client() as client:
        receipt = (client.approve if approved else client.reject)(workflow, thread_id, **verdict)
        asked = waited_for(client, receipt, workflow, thread_id)
    return tell(receipt, workflow, thread_id, verdict["name"], as_json=as_json, asked=asked)
