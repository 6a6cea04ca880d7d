"""Flower for keepstep's Celery app: tasks appear as workflow.step, with the thread id and without any payload.

Flower itself shows what passes through the broker and forgets it. Where a case stands is in PostgreSQL, and on the
pages that are added here.
"""

from __future__ import annotations

import atexit
import errno
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import tornado.options
from celery import Celery

from keepstep.config.celery_options import celery_options
from keepstep.config.settings import Settings, settings
from keepstep.steps.errors import BadSetting

DEFAULTS = {
    "--address": "127.0.0.1",
    # thread id and step are what people look for; results and keyword arguments are always empty
    "--tasks-columns": "name,args,state,received,runtime,worker,uuid",
}


def flower_app(given: Settings) -> Celery:
    """An app on the same broker. It needs no workflows: names and arguments come with the events."""
    app = Celery("keepstep", set_as_current=False)
    app.conf.update(celery_options(given))
    return app


def with_defaults(args: Sequence[str]) -> list[str]:
    """The arguments as Flower takes them, with our defaults for the options that are not among them."""
    joined = joined_options(args)
    named = {arg.partition("=")[0].replace("_", "-") for arg in joined}
    return [*(f"{name}={value}" for name, value in DEFAULTS.items() if name not in named), *joined]


def joined_options(args: Sequence[str]) -> list[str]:
    """Each option with its value as `--name=value`: tornado knows no other form, and Flower has no arguments beside."""
    joined: list[str] = []
    for arg in args:
        if joined and joined[-1].startswith("--") and "=" not in joined[-1] and not arg.startswith("-"):
            joined[-1] += f"={arg}"
        else:
            joined.append(arg)
    return joined


def refuse_unknown(args: Sequence[str], options: Any) -> None:
    """Flower passes over what it doesn't know, and a misspelt --basic-auth would leave it without a password."""
    for arg in args:
        name = arg.partition("=")[0]
        if not arg.startswith("--") or not hasattr(options, name.lstrip("-").replace("-", "_")):
            raise BadSetting(f"Flower has no option {name}. Its options: https://flower.readthedocs.io")


def hush() -> None:
    """Keep back what Flower says at its start and what tells nobody anything.

    It lists Celery's built-in tasks, since our app needs no workflows, and warns six times that no worker is up.
    """
    logging.getLogger("flower.command").addFilter(lambda record: not str(record.msg).startswith("Registered tasks"))
    logging.getLogger("flower.inspector").setLevel(logging.ERROR)


def run_flower(args: Sequence[str]) -> int:
    """Run Flower with the pages about cases in this process until it is stopped; its exit code."""
    hush()
    try:
        serve(with_defaults(args))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise
        raise BadSetting(f"Flower can't listen: {error.strerror}. Choose another --port or --address.") from error
    except tornado.options.Error as error:
        raise BadSetting(f"Flower: {error}. See its options: https://flower.readthedocs.io") from error
    return 0


def serve(args: list[str]) -> None:
    """What Flower's own command does, with our application. Ends this process when it is told to stop."""
    from flower import command
    from flower.urls import settings as theirs
    from tornado.options import options

    from keepstep.monitor.application import CasesFlower

    refuse_unknown(args, options)
    try:
        command.apply_env_options()
        command.apply_options("keepstep flower", args)
    except (ValueError, KeyError) as error:
        raise BadSetting(f"an option of Flower's can't be what was given: {error}") from error
    command.extract_settings()
    command.setup_logging()
    app = CasesFlower(settings(), options, capp=flower_app(settings()), **theirs)
    atexit.register(app.stop)
    signal.signal(signal.SIGTERM, command.sigterm_handler)
    port = app.start_http_server()
    command.print_banner(app.capp, "ssl_options" in theirs, port)
    with suppress(KeyboardInterrupt, SystemExit):
        app.start()
    app.stop()
    app.desk.close()
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)  # Flower's threads that wait for a broker that is away would keep the process for minutes
