"""What the commands that steer cases have in common: who and why, which cases, and how it is told afterwards."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from keepstep.checkpoint.steered import Steered
from keepstep.cli import session
from keepstep.cli.exits import Exit
from keepstep.cli.given import Span, account, tag_option
from keepstep.cli.printing import echo, print_json
from keepstep.steps.moves import Status
from keepstep.workers.client import Client
from keepstep.workers.client.steering_many import OneOfMany

F = TypeVar("F", bound=Callable[..., Any])


def order_options(command: F) -> F:
    """The options --actor and --reason."""
    actor = click.option("--actor", metavar="WHO", default=account, help="Who wants it; else the account's name.")
    return actor(click.option("--reason", metavar="WHY", help="Why; the case's history keeps both.")(command))


repeat_effects_option = click.option(
    "--repeat-effects", is_flag=True, help="Yes: steps that ran already may run again, under new keys."
)

seen_option = click.option(
    "--seen", type=int, metavar="SEQ", help="The latest checkpoint that you saw: refused if there is a later one."
)


def one_or_many(command: F) -> F:
    """The arguments of one case, or the options that filter many."""
    for add in (
        click.option("--yes", is_flag=True, help="With a filter: don't ask."),
        click.option("--dry-run", is_flag=True, help="With a filter: only say which cases it would be."),
        click.option("--error", metavar="TEXT", help="Those held, backing off or failed with this in the error."),
        click.option(
            "--older-than", type=Span(), metavar="TIME", help="Those at their step, or ended, for longer: 2h."
        ),
        tag_option("Those with this tag; several times for several."),
        click.option("--step", help="Those that stand at this step."),
        click.option("--status", type=click.Choice([str(s) for s in Status]), help="Those in this status."),
        click.option("--workflow", "of_workflow", metavar="WORKFLOW", help="Many cases: those of this workflow."),
        click.argument("thread_id", required=False),
        click.argument("workflow", required=False),
    ):
        command = add(command)
    return command


def steer(
    verb: str,
    act: Callable[[Client, str, str], Steered],
    act_many: Callable[..., list[OneOfMany]],
    *,
    workflow: str | None,
    thread_id: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    of_workflow: str | None,
    **filters: Any,
) -> int:
    """One case, if two names are given; otherwise those that the filter finds."""
    asked = {"workflow": of_workflow, **{name: value for name, value in filters.items() if value}}
    filtered = any(asked.values())
    if workflow is not None:
        if thread_id is None or filtered or dry_run:
            raise click.UsageError("give WORKFLOW and THREAD_ID for one case, or only options for many.")
        with session.open_client() as client:
            tell(act(client, workflow, thread_id), as_json=as_json)
        return Exit.OK
    with session.open_client() as client:
        found = act_many(client, dry_run=True, **asked)
        if not dry_run and found:
            _confirm(verb, len(found), yes=yes)
            found = act_many(client, dry_run=False, **asked)
    _tell_many(verb, found, dry_run=dry_run, as_json=as_json)
    return Exit.CONFLICT if any(one.refused for one in found) else Exit.OK


def tell(steered: Steered, *, as_json: bool) -> None:
    """Say where the case stands now."""
    if as_json:
        names = "workflow thread_id status step seq paused effects"
        print_json({name: getattr(steered, name) for name in names.split()})
    else:
        at = f" at {steered.step}" if steered.step else ""
        paused = ", paused" if steered.paused else ""
        place = f"{steered.status}{at}{paused}, checkpoint {steered.seq}"
        echo(f"{steered.workflow}/{steered.thread_id} is {place}")
    if steered.ring is not None and not steered.rung:
        click.echo(f"keepstep: it goes on when Redis at {session.broker()} can be reached again.", err=True)


def _confirm(verb: str, number: int, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{verb} would move {number} cases: look at them with --dry-run, then say --yes.")
    click.confirm(f"{verb} {number} cases?", abort=True, err=True)


def _tell_many(verb: str, found: Sequence[OneOfMany], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for one in found:
        at = f" at {one.step}" if one.step else ""
        echo(f"{one.workflow}/{one.thread_id}: {one.refused or f'{verb}, was {one.status}{at}'}")
    done = sum(one.refused is None for one in found)
    click.echo(f"{done} cases would be moved" if dry_run else f"{done} cases moved", err=True)
