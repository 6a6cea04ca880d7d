"""`keepstep cancel`, `pause`, `resume` and `retry`: of one case, or of all that a filter finds."""

from __future__ import annotations

from typing import Any

import click

from keepstep.checkpoint.steered import Steered
from keepstep.cli import session
from keepstep.cli.orders import one_or_many, order_options, repeat_effects_option, steer, tell
from keepstep.cli.printing import json_option
from keepstep.steps.errors import UnknownWorkflow
from keepstep.workers.client import Client


@click.command()
@one_or_many
@order_options
@json_option
def cancel(actor: str | None, reason: str | None, **given: Any) -> int:
    """End the case THREAD_ID of WORKFLOW as cancelled, or all cases that the options find.

    A step that runs is told by call.cancelled(); what it still returns is kept in the history as late. Exit code 4: the
    case has ended.
    """
    said: dict[str, Any] = {"actor": actor, "reason": reason}
    return steer(
        "cancel",
        lambda client, *case: client.cancel(*case, **said),
        lambda client, **which: client.cancel_many(**said, **which),
        **given,
    )


@click.command()
@one_or_many
@order_options
@json_option
def pause(actor: str | None, reason: str | None, **given: Any) -> int:
    """Let the running step of the case THREAD_ID of WORKFLOW end, and begin no other; or of all that the options find.

    Exit code 4: the case has ended, or is paused already.
    """
    said: dict[str, Any] = {"actor": actor, "reason": reason}
    return steer(
        "pause",
        lambda client, *case: client.pause(*case, **said),
        lambda client, **which: client.pause_many(**said, **which),
        **given,
    )


@click.command()
@one_or_many
@order_options
@json_option
def resume(actor: str | None, reason: str | None, **given: Any) -> int:
    """Let the paused case THREAD_ID of WORKFLOW go on, or all that the options find.

    Exit code 4: the case isn't paused.
    """
    said: dict[str, Any] = {"actor": actor, "reason": reason}
    return steer(
        "resume",
        lambda client, *case: client.resume(*case, **said),
        lambda client, **which: client.resume_many(**said, **which),
        **given,
    )


@click.command()
@one_or_many
@order_options
@click.option("--new-key", is_flag=True, help="Under another key: a provider may replay its error under the old one.")
@repeat_effects_option
@json_option
def retry(
    actor: str | None, reason: str | None, new_key: bool, repeat_effects: bool, as_json: bool, **given: Any
) -> int:
    """Let the held or failed case THREAD_ID of WORKFLOW go on, or all that the options find.

    It runs the same step under the same idempotency key, with all retries anew; if its branches' results didn't fit,
    it gathers them again. Exit code 4: the case is neither held nor failed.
    """
    said: dict[str, Any] = {"actor": actor, "reason": reason}
    if new_key:
        named = given.pop("workflow"), given.pop("thread_id")
        if None in named or any(given.values()):
            raise click.UsageError("--new-key is for one case: give WORKFLOW and THREAD_ID, and no option for many.")
        tell(_retry(*named, new_key=True, repeat_effects=repeat_effects, **said), as_json=as_json)
        return 0
    return steer(
        "retry",
        lambda client, *case: _retry_by(client, *case, **said),
        lambda client, **which: _retry_many(client, **said, **which),
        as_json=as_json,
        **given,
    )


def _retry(workflow: str, thread_id: str, **options: Any) -> Steered:
    with session.open_client() as client:
        return _retry_by(client, workflow, thread_id, **options)


def _retry_by(client: Client, workflow: str, thread_id: str, **options: Any) -> Steered:
    """Only a failed case needs the workflow's code: load it when it is asked for."""
    try:
        return client.retry(workflow, thread_id, **options)
    except UnknownWorkflow:
        with session.open_client(None) as knowing:
            return knowing.retry(workflow, thread_id, **options)


def _retry_many(client: Client, **options: Any) -> Any:
    if options["dry_run"] or options.get("status") == "held":
        return client.retry_many(**options)
    with session.open_client(None) as knowing:
        return knowing.retry_many(**options)
