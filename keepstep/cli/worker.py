"""`keepstep worker`: `celery worker` for keepstep's app, with the defaults that suit it."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import click

from keepstep._version import __version__
from keepstep.cli.group import Verbatim, given
from keepstep.config.settings import settings
from keepstep.steps.errors import BadSetting, SchemaOutdated

log = logging.getLogger("keepstep.worker")


@click.command(cls=Verbatim)
@click.option("-Q", "--queues", metavar="NAMES", help="Only these queues, separated by commas. Default: all.")
@click.option("-c", "--concurrency", metavar="N", help="Processes or threads. Default: as many as CPUs.")
@click.option("-P", "--pool", metavar="KIND", help="prefork (default), threads, or solo.")
@click.option("-l", "--loglevel", metavar="LEVEL", help="Default: KEEPSTEP_LOG_LEVEL, or INFO.")
@click.option("-n", "--hostname", metavar="NAME", help="The node's name in Flower, such as slow@%h.")
@click.option("-E", "--task-events", is_flag=True, help="Send events to Flower; on unless KEEPSTEP_EVENTS=false.")
@click.pass_context
def worker(ctx: click.Context, /, **_: Any) -> int:
    """Run a worker for the modules that KEEPSTEP_WORKFLOWS or --workflows name.

    Every option goes to `celery worker` as it is, also those that aren't shown here (see: celery worker --help).
    SIGTERM lets the steps in flight finish. If PostgreSQL or Redis is down, it waits until it is back.
    """
    if given(ctx.args, "-D", "--detach"):
        raise click.UsageError("A worker runs in the foreground; leave --detach to systemd or to a container.", ctx=ctx)
    chosen = settings()
    if not chosen.workflows:
        raise BadSetting("no workflows: name their modules in KEEPSTEP_WORKFLOWS or with --workflows.")
    level = [] if given(ctx.args, "-l", "--loglevel") else ["--loglevel", chosen.log_level]
    return run_celery_worker([*level, *QUICK, *ctx.args])


QUICK = ("--without-gossip", "--without-mingle")
"""Talk of workers among themselves, which keepstep has no use for: mingling alone costs a second at each start."""


def run_celery_worker(args: list[str]) -> int:
    """Run Celery's own command in this process until it is stopped; its exit code."""
    from celery import signals
    from celery.bin.base import CLIContext
    from celery.bin.worker import worker as celery_worker
    from celery.exceptions import SecurityWarning

    from keepstep.workers.app import app, engine

    def greet(instance: Any, **_: Any) -> None:
        """Say what this worker is for: Celery's banner has one task and no workflows."""
        known = ", ".join(f"{workflow.name} (v{workflow.schema_version})" for workflow in engine.registry)
        pool = instance.pool_cls.__module__.rpartition(".")[2]
        log.info("keepstep %s, %s, pid %s", __version__, instance.hostname, os.getpid())
        log.info("workflows: %s", known)
        log.info("queues: %s; %s, %s at a time", ", ".join(app.amqp.queues.consume_from), pool, instance.concurrency)

    signals.celeryd_after_setup.connect(greet, weak=False)

    # root is discouraged because of pickle, which keepstep's app accepts from nobody
    warnings.filterwarnings("ignore", message=".*superuser privileges", category=SecurityWarning)
    context = CLIContext(app=app, no_color=None, workdir=None, quiet=True)
    try:
        code = celery_worker.main(args=args, prog_name="keepstep worker", obj=context, standalone_mode=False)
    except SystemExit as leaving:
        if isinstance(leaving.__context__, SchemaOutdated):  # the bootstep's; as a refusal it has its own exit code
            raise leaving.__context__ from None
        raise
    return int(code or 0)
