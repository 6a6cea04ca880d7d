"""The Celery app of keepstep's workers: `keepstep worker`, or `celery -A keepstep.workers.app worker`."""

from __future__ import annotations

import logging
import multiprocessing
import tempfile
from functools import partial
from typing import Any
from uuid import UUID

from celery import Celery, signals
from kombu.entity import Queue

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Delivery
from keepstep.config.celery_options import celery_options
from keepstep.config.logs import configure
from keepstep.config.settings import Settings, settings
from keepstep.steps.workflow import DEFAULT_QUEUE
from keepstep.workers.engine import Engine
from keepstep.workers.envelope import HOOK_TASK, TASK
from keepstep.workers.execute import execute
from keepstep.workers.hooks import call_hooks
from keepstep.workers.inline import slack
from keepstep.workers.lean import strategy
from keepstep.workers.node import node_step
from keepstep.workers.publish import Bell
from keepstep.workers.registry import Registry
from keepstep.workers.strangers import Strangers
from keepstep.workers.transport import transport_for


def make_app(given: Settings) -> tuple[Celery, Engine]:
    """A Celery app with keepstep's one task and its bootstep, and the engine behind it."""
    registry = Registry()
    registry.load(given.workflows)
    app = Celery("keepstep", set_as_current=False)
    app.conf.update(celery_options(given))
    app.conf.broker_transport = transport_for(given.broker_url, lean=given.lean)
    queues = sorted({DEFAULT_QUEUE, *registry.queues})
    app.conf.task_queues = [Queue(name) for name in queues]
    engine = Engine(
        settings=given,
        db=Database(
            given.database_url,
            application_name="keepstep worker",
            prepare=given.prepared_statements,
            lease=given.lease_seconds,
        ),
        registry=registry,
        bell=Bell(
            app,
            show_thread_ids=given.show_thread_ids,
            lean=given.lean,
            slack=lambda workflow: slack(registry.inline_seconds(workflow, given.inline_seconds)),
        ),
    )
    app.steps["worker"].add(node_step(engine))
    strangers = Strangers(registry)

    @app.task(name=TASK, bind=True)
    def step(task: Any, case: str, seq: int, *_: Any, **__: Any) -> None:
        """Run one step of one case. Further arguments are a newer release's, and are passed over."""
        strangers.notice(task.request)
        info = task.request.delivery_info or {}
        soft = (task.request.timelimit or (None, None))[1]
        execute(engine, Delivery(case=UUID(case), seq=seq), redelivered=bool(info.get("redelivered")), limit=soft)

    @app.task(name=HOOK_TASK)
    def hook(hook_id: int, *_: Any, **__: Any) -> None:
        """Call the hooks of one event of one case."""
        call_hooks(engine, hook_id)

    if given.lean:
        step.start_strategy = partial(strategy(engine), step)
    return app, engine


@signals.setup_logging.connect
def _setup_logging(loglevel: int | str | None = None, logfile: str | None = None, **_: Any) -> None:
    chosen = settings()
    configure(loglevel or chosen.log_level, json_lines=chosen.log_format == "json", file=logfile or None)
    logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)  # one line a transition, ours
    logging.getLogger("celery.app.trace").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)


@signals.celeryd_init.connect
def _use_the_temporary_directory_itself(**_: Any) -> None:
    """The pool has a directory made for one file that it unlinks at once; a killed worker would leave it behind."""
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})  # where billiard looks, too
    config.setdefault("tempdir", tempfile.gettempdir())


app, engine = make_app(settings())
