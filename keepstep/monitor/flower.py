"""Flower for keepstep's Celery app: tasks appear as workflow.step, with the thread id and without any payload.

Flower shows what passes through the broker and forgets it; where a case stands is in PostgreSQL (`keepstep show`).
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

import click
from celery import Celery
from celery.bin.base import CLIContext

from keepstep.config.celery_options import celery_options
from keepstep.config.settings import settings
from keepstep.steps.errors import BadSetting

DEFAULTS = {
    "--address": "127.0.0.1",
    # thread id and step are what people look for; results and keyword arguments are always empty
    "--tasks-columns": "name,args,state,received,runtime,worker,uuid",
}


def flower_app() -> Celery:
    """An app on the same broker. It needs no workflows: names and arguments come with the events."""
    app = Celery("keepstep", set_as_current=False)
    app.conf.update(celery_options(settings()))
    return app


def with_defaults(args: Sequence[str]) -> list[str]:
    """The arguments, with our defaults for the options that are not among them."""
    named = {arg.partition("=")[0].replace("_", "-") for arg in args}
    return [*(f"{name}={value}" for name, value in DEFAULTS.items() if name not in named), *args]


def run_flower(args: Sequence[str]) -> int:
    """Run Flower in this process until it is stopped; its exit code."""
    from flower.command import flower

    @click.group()
    @click.pass_context
    def celery(ctx: click.Context) -> None:
        ctx.obj = CLIContext(app=flower_app(), no_color=None, workdir=None)

    celery.add_command(flower, "flower")
    try:
        code = celery.main(args=["flower", *with_defaults(args)], prog_name="keepstep", standalone_mode=False)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise
        raise BadSetting(f"Flower can't listen: {error.strerror}. Choose another --port or --address.") from error
    return int(code or 0)
