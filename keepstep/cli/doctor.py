"""`keepstep doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain

import click

from keepstep.cli import session
from keepstep.cli.exits import Exit
from keepstep.cli.printing import console, escape, json_option, print_json
from keepstep.config.settings import Settings, read_settings
from keepstep.monitor.doctor import Finding, Level, Patient, examine
from keepstep.steps.errors import KeepstepError
from keepstep.workers.client import Client

MARKS = {Level.OK: "[green]ok[/]     ", Level.WARN: "[yellow]warning[/]", Level.BAD: "[bold red]error[/]  "}


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Look at all that keepstep stands on: PostgreSQL, the broker, workers, queues, cases; say what to do.

    It changes nothing. With --workflows or KEEPSTEP_WORKFLOWS it also compares with the queues and limits of their
    steps. Exit code 1 if there is an error; warnings don't count.
    """
    chosen = read_settings()
    with _client(chosen) as (client, found), session.translated(client.db):
        for finding in chain(list(found), examine(Patient(client=client, settings=chosen))):
            if finding not in found:
                found.append(finding)
            if not as_json:
                _show(finding)
    if as_json:
        print_json(found)
    return Exit.FAILED if any(finding.level is Level.BAD for finding in found) else Exit.OK


@contextmanager
def _client(chosen: Settings) -> Iterator[tuple[Client, list[Finding]]]:
    """A client with the workflows' code; without it, and with that as a finding, if it can't be loaded."""
    found: list[Finding] = []
    try:
        client = Client(settings=chosen)
    except KeepstepError as error:
        client = Client(settings=chosen, workflows=())
        found.append(Finding(level=Level.BAD, what=str(error), do="Mend it: no worker can start with it."))
    with client:
        yield client, found


def _show(finding: Finding) -> None:
    out = console()
    out.print(f"{MARKS[finding.level]}  {escape(finding.what)}", soft_wrap=True)
    if finding.do:
        out.print(f"         [dim]{escape(finding.do)}[/]", soft_wrap=True)
