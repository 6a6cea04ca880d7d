"""`keepstep calls`: all that a case called outside, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from keepstep.checkpoint.ledger import RecordedCall, total
from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import console, escape, json_option, print_json, table
from keepstep.steps.call import Cost
from keepstep.steps.words import duration


@click.command()
@case_arguments
@json_option
def calls(workflow: str, thread_id: str, as_json: bool) -> None:
    """List all that the case THREAD_ID of WORKFLOW called outside, with its idempotency keys, and what it cost.

    A line is an attempt of a step, or, with a CALL, a recorded call inside of one.
    """
    with session.open_client() as client:
        made = client.calls(workflow, thread_id)
    if as_json:
        print_json(made)
        return
    out = console()
    out.print(_table(made))
    spent = total(made)
    out.print(f"\nTotal cost: {escape(_cost(spent)) or 'none was recorded'}")


def _table(made: Sequence[RecordedCall]) -> Any:
    rows = table("SEQ", "STEP", "CALL", "ATTEMPT", "OUTCOME", "TOOK", "COST", "KEY")
    rows.columns[-1].no_wrap = True  # to be copied in one piece
    for one in made:
        rows.add_row(
            str(one.seq),
            escape(one.step),
            escape(one.name or ""),
            str(one.attempt),
            _outcome(one.outcome),
            "" if one.seconds is None else duration(one.seconds),
            escape(_cost(one.cost)),
            one.key or "",
        )
    return rows


def _outcome(outcome: str) -> str:
    if outcome in ("done", "verified", "running"):
        return outcome
    return f"[red]{escape(outcome.replace('_', ' '))}[/]"


def _cost(cost: Cost) -> str:
    return ", ".join(
        f"{name} {number:,.6g}" if isinstance(number, float) else f"{name} {number:,}" for name, number in cost.items()
    )
