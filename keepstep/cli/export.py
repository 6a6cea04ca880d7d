"""`keepstep export` and `keepstep erase`: all that the database has of a case, on paper and off the disk."""

from __future__ import annotations

import json
import os
import sys
from typing import IO

import click

from keepstep.cli import session
from keepstep.cli.given import case_arguments
from keepstep.cli.orders import order_options
from keepstep.cli.printing import echo, json_option, print_json


@click.command()
@case_arguments
@click.option("--out", metavar="FILE", help="Write to this file, which must not exist yet, instead of stdout.")
@click.option("--with-secrets", is_flag=True, help="With --out: secret fields too; the file is for its owner only.")
def export(workflow: str, thread_id: str, out: str | None, with_secrets: bool) -> None:
    """Write every row that the database has of THREAD_ID of WORKFLOW and its children, as JSON Lines.

    Each line is {"table": ..., "row": {...}}. Secret fields are ***.
    """
    if with_secrets and out is None:
        raise click.UsageError("--with-secrets writes to a file only: give --out FILE.")
    with session.open_client() as client:
        rows = client.export(workflow, thread_id, secrets=with_secrets)
        first = next(rows)  # or there is no such case, and no file is made
        file = sys.stdout if out is None else _new(out)
        try:
            _write(file, first)
            for row in rows:
                _write(file, row)
        finally:
            if out is not None:
                file.close()


@click.command()
@case_arguments
@order_options
@click.option("--yes", is_flag=True, help="Don't ask.")
@json_option
def erase(workflow: str, thread_id: str, actor: str | None, reason: str | None, yes: bool, as_json: bool) -> None:
    """Delete everything of the ended case THREAD_ID of WORKFLOW and its children, for ever.

    A tombstone stays, which says when and by whom. Exit code 4: it hasn't ended.
    """
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("erase can't be undone: say --yes.")
        click.confirm(f"erase {workflow}/{thread_id} for ever?", abort=True, err=True)
    with session.open_client() as client:
        erased = client.erase(workflow, thread_id, actor=actor, reason=reason)
    if as_json:
        print_json(erased)
        return
    children = f", with {erased.children} children" if erased.children else ""
    echo(f"{workflow}/{thread_id} is erased{children}")
    if erased.forks:
        echo(f"its forks are cases of their own, with a copy of its state: {', '.join(erased.forks)}")


def _new(path: str) -> IO[str]:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{path} can't be written: {error.strerror}") from None


def _write(file: IO[str], row: object) -> None:
    print(json.dumps(row, ensure_ascii=True, separators=(",", ":")), file=file)
