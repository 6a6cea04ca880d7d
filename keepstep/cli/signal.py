"""`keepstep signal` and `keepstep send`: a decision, and a message of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from keepstep.checkpoint.signals import Receipt
from keepstep.cli import session
from keepstep.cli.exits import Exit
from keepstep.cli.given import JsonValue, case_arguments
from keepstep.cli.printing import echo, json_option, print_json
from keepstep.workers.client import Client

FATES = {
    "delivered": "delivered: the case goes on",
    "counted": "counted: other approvers are needed too",
    "kept": "kept: the case isn't waiting for it yet, and will find it when it does",
    "repeated": "repeated: the same was sent before, and counts once",
    "late": "late: the deadline had passed; it is kept in the history, and changes nothing",
}


@click.command()
@case_arguments
@click.argument("name")
@click.option("--payload", type=JsonValue(), default=None, metavar="JSON", help="JSON, @file, or - for stdin.")
@click.option("--actor", metavar="WHO", help="Who decides; also fills the payload's `actor`, if it asks for one.")
@click.option("--dedupe-key", metavar="KEY", help="Sent twice with one key, it counts once.")
@click.option("--digest", help="Of what was shown (see inbox): refused if something else is being asked.")
@json_option
def signal(
    workflow: str,
    thread_id: str,
    name: str,
    payload: Any,
    actor: str | None,
    dedupe_key: str | None,
    digest: str | None,
    as_json: bool,
) -> Exit:
    """Send the signal NAME to the case THREAD_ID of WORKFLOW.

    If the case waits for it, it goes on at once; otherwise the signal is kept until it does. Exit code 4: the case was
    decided otherwise before, has ended, or its deadline has passed.
    """
    with session.open_client() as client:
        receipt = client.signal(workflow, thread_id, name, payload, actor=actor, dedupe_key=dedupe_key, digest=digest)
        asked = waited_for(client, receipt, workflow, thread_id)
    return tell(receipt, workflow, thread_id, name, as_json=as_json, asked=asked)


@click.command()
@case_arguments
@click.argument("name")
@click.option("--payload", type=JsonValue(), default=None, metavar="JSON", help="JSON, @file, or - for stdin.")
@click.option("--actor", metavar="WHO", help="Who sends it.")
@click.option("--dedupe-key", metavar="KEY", help="Sent twice with one key, it counts once.")
@json_option
def send(
    workflow: str,
    thread_id: str,
    name: str,
    payload: Any,
    actor: str | None,
    dedupe_key: str | None,
    as_json: bool,
) -> Exit:
    """Send a message to the stream NAME of the case THREAD_ID of WORKFLOW.

    The case takes them one at a time, first in, first out. Exit code 4: the case has ended.
    """
    with session.open_client() as client:
        receipt = client.send(workflow, thread_id, name, payload, actor=actor, dedupe_key=dedupe_key)
        asked = waited_for(client, receipt, workflow, thread_id)
    return tell(receipt, workflow, thread_id, name, as_json=as_json, asked=asked)


def waited_for(client: Client, receipt: Receipt, workflow: str, thread_id: str) -> list[str]:
    """What the case waits for now, if the signal doesn't let it go on."""
    if receipt.fate not in ("kept", "delivered"):
        return []
    return [wait["name"] for wait in client.waits(workflow, thread_id)]


def tell(
    receipt: Receipt, workflow: str, thread_id: str, name: str, *, as_json: bool, asked: Sequence[str] = ()
) -> Exit:
    """Say what became of a signal; the exit code. asked: what the case waits for now."""
    if as_json:
        said = {"workflow": workflow, "thread_id": thread_id, "name": name}
        print_json({**said, "fate": receipt.fate, "paused": receipt.paused})
    else:
        echo(f"{workflow}/{thread_id} {name} {_fate(receipt, asked)}")
    if receipt.ring is not None and not receipt.rung:
        click.echo(
            f"keepstep: it is stored; the case goes on when Redis at {session.broker()} can be reached again.", err=True
        )
    return Exit.CONFLICT if receipt.fate == "late" else Exit.OK


def _fate(receipt: Receipt, asked: Sequence[str]) -> str:
    waits = f"It waits for {', '.join(asked)}"
    if receipt.fate != "delivered":
        return f"{FATES[receipt.fate]}. {waits}" if asked else FATES[receipt.fate]
    if asked:
        return f"delivered. {waits}"
    return "delivered: the case goes on when it is resumed" if receipt.paused else FATES["delivered"]
