"""`keepstep history`: all that happened to a case."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from keepstep.checkpoint.reads import Event
from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.printing import console, escape, json_option, print_json, table
from keepstep.steps.words import duration, one_line

CHECKPOINTS = ("start", "step", "verify", "signal", "timeout", "join", "skip", "rewind", "fork")


@click.command()
@case_arguments
@json_option
def history(workflow: str, thread_id: str, as_json: bool) -> None:
    """List all that happened to the case THREAD_ID of WORKFLOW.

    That is its checkpoints, attempts that failed, signals, what became of its branches, and what operators did.

    AT is the time since the start; TOOK is how long the attempt took that wrote the checkpoint; CODE is the schema
    version, KEEPSTEP_CODE_VERSION and the workflow's fingerprint of the worker that wrote it.
    """
    with session.open_client() as client:
        mask = client.mask(workflow, thread_id)
        events = [mask.event(event) for event in client.history(workflow, thread_id)]
    if as_json:
        print_json(events)
        return
    out = console()
    begin = events[0].at
    out.print(f"[bold]{escape(workflow)}/{escape(thread_id)}[/], started {begin.astimezone():%Y-%m-%d %H:%M:%S}")
    out.print(_table(events, begin))


def _table(events: Sequence[Event], begin: datetime) -> Any:
    made = table("SEQ", "AT", "STEP", "WHAT", "ATTEMPT", "TOOK", "CODE", "NOTE")
    for event in events:
        made.add_row(
            "-" if event.seq is None else str(event.seq),
            f"+{duration((event.at - begin).total_seconds())}",
            escape(event.step),
            _what(event),
            _attempt(event),
            _took(event),
            escape(code(event.detail)),
            escape(_note(event)),
        )
    return made


def _what(event: Event) -> str:
    if event.kind in CHECKPOINTS:
        return event.kind
    if event.kind == "audit":
        return "[magenta]operator[/]"
    return f"[cyan]{event.kind}[/]" if event.kind in ("sent", "branches") else f"[red]{event.kind.replace('_', ' ')}[/]"


def _attempt(event: Event) -> str:
    made = event.detail.get("attempt")
    return str(made) if made else ""


def code(written: Mapping[str, Any]) -> str:
    """What wrote a checkpoint: the schema version, what the deploy calls the code, and the workflow's fingerprint."""
    by = written.get("code") or {}
    version = written.get("schema_version")
    return " ".join(text for text in (version and f"v{version}", by.get("code"), by.get("fingerprint")) if text)


def _took(event: Event) -> str:
    started = event.detail.get("started_at")
    return duration((event.at - started).total_seconds()) if started else ""


def _note(event: Event) -> str:
    detail = event.detail
    if event.kind == "sent":
        who = f"by {detail['actor']}: " if detail["actor"] else ""
        refused = f" (not used: {detail['refused']})" if detail["refused"] else ""
        return one_line(f"{who}{json.dumps(detail['payload'], ensure_ascii=False)}{refused}", 120)
    if event.kind == "branches":
        return one_line(str(detail["told"]), 160)
    if event.kind == "audit":
        return one_line(
            ": ".join(text for text in (detail["actor"] and f"by {detail['actor']}", detail["reason"]) if text), 120
        )
    error = detail.get("error")
    if error:
        parts = [str(error[name]) for name in ("why", "type", "message") if error.get(name)]
        return one_line(": ".join(parts), 160)
    return f"-> {detail['status']}" if detail.get("status") in ("waiting", "sleeping", "completed") else ""
