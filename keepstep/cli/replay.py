"""`keepstep skip`, `rewind`, `fork` and `restart`: put a case elsewhere by a new checkpoint."""

from __future__ import annotations

from typing import Any

import click

from keepstep.cli import session
from keepstep.cli.given import JsonValue, case_arguments
from keepstep.cli.orders import order_options, repeat_effects_option, seen_option, tell
from keepstep.cli.printing import json_option


@click.command()
@case_arguments
@click.option("--update", type=JsonValue(), default=None, metavar="JSON", help="Changes of the state, as JSON.")
@click.option("--to", metavar="STEP", help="The step to go on with, instead of the next.")
@seen_option
@order_options
@json_option
def skip(workflow: str, thread_id: str, update: Any, as_json: bool, **options: Any) -> None:
    """Go on behind the step, or the wait, that the case THREAD_ID of WORKFLOW stands at.

    As if the step had returned the --update: its fields are changed, and checked by the workflow's model. Exit code 4:
    the case has completed or was cancelled.
    """
    if update is not None and not isinstance(update, dict):
        raise click.BadParameter("an update is a JSON object of changes.", param_hint="--update")
    with session.open_client(None) as client:
        tell(client.skip(workflow, thread_id, update=update, **options), as_json=as_json)


@click.command()
@case_arguments
@click.option("--to", type=int, required=True, metavar="SEQ", help="The checkpoint; `keepstep history` lists them.")
@repeat_effects_option
@seen_option
@order_options
@json_option
def rewind(workflow: str, thread_id: str, as_json: bool, **options: Any) -> None:
    """Let the case THREAD_ID of WORKFLOW go on from an earlier checkpoint, also if it has ended.

    A new checkpoint is written; the past stays in the history. Exit code 4: there is no such checkpoint, or steps that
    ran would run again, and --repeat-effects isn't given.
    """
    with session.open_client(None) as client:
        tell(client.rewind(workflow, thread_id, **options), as_json=as_json)


@click.command()
@case_arguments
@click.option("--at", type=int, required=True, metavar="SEQ", help="The checkpoint; `keepstep history` lists them.")
@click.option("--as", "new_thread_id", required=True, metavar="NEW", help="The thread id of the new case.")
@repeat_effects_option
@order_options
@json_option
def fork(workflow: str, thread_id: str, as_json: bool, **options: Any) -> None:
    """Start another case from a checkpoint of the case THREAD_ID of WORKFLOW, which stays as it is.

    Exit code 4: there is no such checkpoint, the new thread id is taken, or steps that ran would run again, and
    --repeat-effects isn't given.
    """
    with session.open_client(None) as client:
        tell(client.fork(workflow, thread_id, **options), as_json=as_json)


@click.command()
@case_arguments
@repeat_effects_option
@seen_option
@order_options
@json_option
def restart(workflow: str, thread_id: str, as_json: bool, **options: Any) -> None:
    """Let the case THREAD_ID of WORKFLOW begin again with what was sent at its start, also if it has ended.

    Exit code 4: steps that ran would run again, and --repeat-effects isn't given.
    """
    with session.open_client(None) as client:
        tell(client.restart(workflow, thread_id, **options), as_json=as_json)
