"""`keepstep queues`: what waits in which queue, and who works it off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click

from keepstep.checkpoint.queues import QueueView, queues
from keepstep.cli import session
from keepstep.cli.given import Span
from keepstep.cli.printing import console, escape, json_option, print_json, table
from keepstep.steps.words import duration


@click.command("queues")
@click.option(
    "--lately", type=Span(), default="5min", show_default=True, metavar="TIME", help="Of which steps to tell the waits."
)
@json_option
def list_queues(lately: float, as_json: bool) -> None:
    """List the queues: messages in the broker, cases that wait for a worker, and how long they do.

    DEPTH is the broker's; WAITING and OLDEST are PostgreSQL's, which is what counts. WAIT is from publish to claim, of
    steps that began lately: half of them waited no longer, and 95 % of them. BUSY is of the SLOTS of live workers.
    """
    with session.open_client() as client:
        found = [
            replace(one, depth=client.depth(one.name)) for one in queues(client.db, client.nodes(), seconds=lately)
        ]
    if as_json:
        print_json(found)
    elif found:
        console().print(_table(found))
    else:
        click.echo("no queues: no worker is alive, and no case waits for one", err=True)


def _table(found: Sequence[QueueView]) -> Any:
    shown = table("QUEUE", "DEPTH", "WAITING", "OLDEST", "WAIT (HALF)", "WAIT (95 %)", "BUSY", "WORKERS")
    for one in found:
        shown.add_row(
            escape(one.name),
            "?" if one.depth is None else f"{one.depth:,}",
            f"{one.queued:,}",
            "" if one.oldest is None else duration(one.oldest),
            "" if one.median is None else duration(one.median),
            "" if one.slow is None else duration(one.slow),
            f"{one.running}/{one.slots}",
            str(one.workers) if one.workers else "[red]none[/]",
        )
    return shown
