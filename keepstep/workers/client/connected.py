"""What every part of the client stands on: settings, database, workflows, and the doorbell."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self
from uuid import UUID

from celery import Celery

from keepstep.checkpoint import branches, joins
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Ring
from keepstep.config import logs  # noqa: F401  (silences the log unless it is configured)
from keepstep.config.celery_options import celery_options
from keepstep.config.settings import Settings, read_settings
from keepstep.steps.errors import UnknownCase
from keepstep.steps.keys import case_id, check_thread_id, why_unstorable
from keepstep.steps.workflow import Workflow
from keepstep.workers.inline import slack
from keepstep.workers.publish import Bell
from keepstep.workers.registry import Registry
from keepstep.workers.transport import transport_for

SILENCE = 5.0
"""Seconds for which a broker that could not be reached isn't tried again, so that callers are not kept."""


class Connected:
    """Settings, database, workflows and doorbell of one process.

    database_url, broker_url: default to KEEPSTEP_DATABASE_URL and KEEPSTEP_BROKER_URL. workflows: modules or
    Workflow objects whose cases may be started by name (default: KEEPSTEP_WORKFLOWS).
    """

    def __init__(
        self,
        database_url: str | None = None,
        broker_url: str | None = None,
        *,
        workflows: Iterable[str | Workflow] | None = None,
        settings: Settings | None = None,
    ):
        self.settings = settings or read_settings(database_url=database_url, broker_url=broker_url)
        self.db = Database(
            self.settings.database_url,
            application_name="keepstep client",
            ping=True,
            lease=self.settings.lease_seconds,
        )
        self._bell = Bell(
            _publisher(self.settings),
            show_thread_ids=self.settings.show_thread_ids,
            lean=self.settings.lean,
            slack=lambda workflow: slack(self.registry.inline_seconds(workflow, self.settings.inline_seconds)),
        )
        self._silent_until = 0.0
        self.registry = Registry()
        named = self.settings.workflows if workflows is None else list(workflows)
        self.registry.load(name for name in named if isinstance(name, str))
        for workflow in named:
            if isinstance(workflow, Workflow):
                self.registry.add(workflow)

    def close(self) -> None:
        """Close this process's connections."""
        self.db.dispose()
        self._bell.close()
        self._bell.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _definition(self, workflow: str | Workflow) -> Workflow:
        if isinstance(workflow, Workflow):
            self.registry.add(workflow)
            return workflow
        return self.registry.get(workflow)

    def _id(self, workflow: str | Workflow, thread_id: str) -> UUID:
        return case_id(*named(workflow, thread_id))

    def _follow(self, case: UUID) -> None:
        """After a case was moved by hand, or by a signal: what that means for its branches, and for its parent."""
        limit = self.settings.max_state_bytes

        def tell(_case: UUID, _seq: int, rings: list[Ring], _joined: bool) -> None:
            self._ring(rings)

        branches.clear(self.db, case)
        joins.settle(self.db, case, tell, self.registry, max_bytes=limit)
        joins.ended(self.db, case, tell, self.registry, max_bytes=limit)

    def _ring(self, rings: Sequence[Ring]) -> bool:
        """Ring unless the broker was away a moment ago; the sweep rings otherwise."""
        if time.monotonic() < self._silent_until:
            return False
        rung = self._bell.ring(rings) == len(rings)
        if not rung:
            self._silent_until = time.monotonic() + SILENCE
        return rung


def name_of(workflow: str | Workflow) -> str:
    """The name, whichever of the two was given."""
    return workflow.name if isinstance(workflow, Workflow) else workflow


def named(workflow: str | Workflow, thread_id: str) -> tuple[str, str]:
    """The two names of a case: BadThreadId, or UnknownCase of a workflow whose name is none."""
    name = name_of(workflow)
    check_thread_id(thread_id)
    if not isinstance(name, str) or why_unstorable(name):
        raise UnknownCase(ascii(name), thread_id)
    return name, thread_id


def _publisher(settings: Settings) -> Celery:
    """A Celery app for publishing only, which gives up soon: a caller must not be kept by a dead broker."""
    app = Celery("keepstep-client", set_as_current=False)
    app.conf.update(celery_options(settings))
    app.conf.broker_transport = transport_for(settings.broker_url)
    timeout = settings.publish_timeout_seconds / 2  # a silent broker is waited for twice: at the connection, at the try
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
    }
    return app
