"""`keepstep check`: before a deploy, load every live case with the code that is about to be deployed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.finding import Verdict
from keepstep.cli.exits import Exit
from keepstep.cli.printing import console, escape, json_option, print_json, table
from keepstep.cli.session import translated
from keepstep.config.settings import read_settings
from keepstep.steps.errors import BadSetting
from keepstep.steps.words import duration, one_line
from keepstep.workers.check import Checked, Trouble
from keepstep.workers.check import check as check_cases
from keepstep.workers.registry import Registry

_STYLES = {Verdict.HELD: "bold red", Verdict.STUCK: "red", Verdict.WARNED: "yellow"}


@click.command()
@click.option("--workflow", "only", multiple=True, metavar="NAME", help="Only this workflow's cases; may be repeated.")
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Only N cases, at random.")
@click.option("--against", metavar="URL", help="Another database, such as a replica of production's; it is only read.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings, too.")
@json_option
def check(only: tuple[str, ...], sample: int | None, against: str | None, strict: bool, as_json: bool) -> int:
    """Say which live cases the code at hand could not go on with, and why. For a deploy's pipeline.

    The code is that of KEEPSTEP_WORKFLOWS or --workflows. Each case's state is put together, upcast and validated; its
    step, where its waits lead, and what they ask for are looked for in the code. Nothing is called and nothing written.

    Exit code 1 if a case would be held, or would stand still. Warnings alone, such as stored fields that the model
    doesn't know, or a replica that lags, are 0 unless --strict. The database must have this keepstep's tables.
    """
    settings = read_settings(database_url=against)
    if not settings.workflows:
        raise BadSetting("no workflows: name their modules in KEEPSTEP_WORKFLOWS or with --workflows.")
    registry = Registry()
    registry.load(settings.workflows)
    for name in only:
        registry.get(name)
    database = Database(settings.database_url, pool_size=1, application_name="keepstep check")
    with translated(database):
        checked = check_cases(database, registry, workflows=only or None, sample=sample)
    if as_json:
        print_json({"ok": checked.passes(strict=strict), **_plain(checked)})
    else:
        _print(checked, sampled=sample is not None, against=against is not None)
    return Exit.OK if checked.passes(strict=strict) else Exit.FAILED


def _plain(checked: Checked) -> dict[str, Any]:
    return {
        "database": {"replica": checked.source.is_replica, "behind": checked.source.behind, "late": checked.is_late},
        "cases": dict(checked.cases),
        "ready": checked.ready,
        "troubles": [
            {
                "workflow": trouble.workflow,
                "verdict": str(trouble.verdict),
                "why": trouble.why,
                "path": trouble.path,
                "cases": trouble.cases,
                "examples": [{"thread_id": thread_id, "detail": detail} for thread_id, detail in trouble.examples],
            }
            for trouble in checked.troubles
        ],
    }


def _print(checked: Checked, *, sampled: bool, against: bool) -> None:
    out = console()
    for line in _source(checked, against=against):
        out.print(f"[yellow]{line}[/]")
    if checked.troubles:
        made = table("WORKFLOW", "CASES", "WOULD BE", "WHY", "FOR EXAMPLE")
        for trouble in checked.troubles:
            style = _STYLES[trouble.verdict]
            made.add_row(
                escape(trouble.workflow),
                str(trouble.cases),
                f"[{style}]{trouble.verdict}[/]",
                escape(trouble.why),
                escape(_example(trouble)),
            )
        out.print(made)
    total = sum(checked.cases.values())
    which = "live cases, at random" if sampled else "live cases"
    out.print(f"{total:,} {which}: this code goes on with {checked.ready:,}, and not with {total - checked.ready:,}")


def _source(checked: Checked, *, against: bool) -> Iterator[str]:
    """What is to be known of the database that was read."""
    if against and not checked.source.is_replica:
        yield "--against names a primary, not a replica: all this was read there."
    if checked.is_late:
        behind = checked.source.behind
        old = "of unknown age" if behind is None else f"{duration(behind)} old"
        yield (
            f"The replica's newest transaction is {old}: it lags, or nothing is written at its primary. What has moved "
            "since is judged as it stood then."
        )


def _example(trouble: Trouble) -> str:
    thread_id, detail = trouble.examples[0]
    return f"{thread_id}: {one_line(detail, 300)}" if detail else thread_id
