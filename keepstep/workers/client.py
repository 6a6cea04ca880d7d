"""The client for backend code: start a case, signal it, look at it. Needs PostgreSQL; Redis may be away."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from celery import Celery

from keepstep.checkpoint import births, nodes, reads, recovery, signals
from keepstep.checkpoint.births import Input
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.reads import Case, Event
from keepstep.checkpoint.ring import Ring
from keepstep.checkpoint.signals import Receipt, Signal
from keepstep.config import logs  # noqa: F401  (silences the log unless it is configured)
from keepstep.config.celery_options import celery_options
from keepstep.config.settings import Settings, read_settings
from keepstep.steps.errors import CaseError, UnknownCase, WaitTimeout
from keepstep.steps.keys import case_id, check_thread_id
from keepstep.steps.workflow import Workflow
from keepstep.workers.publish import Bell
from keepstep.workers.registry import Registry
from keepstep.workers.transport import transport_for

SILENCE = 5.0
"""Seconds for which a broker that could not be reached isn't tried again, so that callers are not kept."""

log = logging.getLogger("keepstep.client")


@dataclass(frozen=True, kw_only=True)
class Started:
    """A case that is stored. new: this call made it; otherwise it was there, started with the same input.

    rung: a worker was told at once; otherwise (Redis is away, or the case is not new) the sweep does it.
    """

    id: UUID
    workflow: str
    thread_id: str
    new: bool
    rung: bool


class Client:
    """The door for backend code; one for the whole process, safe across threads and forks, closable.

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
        self.db = Database(self.settings.database_url, application_name="keepstep client", ping=True)
        self._bell = Bell(_publisher(self.settings), show_thread_ids=self.settings.show_thread_ids)
        self._silent_until = 0.0
        self.registry = Registry()
        named = self.settings.workflows if workflows is None else list(workflows)
        self.registry.load(name for name in named if isinstance(name, str))
        for workflow in named:
            if isinstance(workflow, Workflow):
                self.registry.add(workflow)

    # ------------------------------------------------------------------------------------------------- one case
    def start(self, workflow: str | Workflow, thread_id: str, state: Input) -> Started:
        """Store a case and ring for its first step. The same thread id with the same input returns the same case.

        state: the initial state, as a dict or as the model. Once this returns, the case is in PostgreSQL; if Redis is
        away, it starts when Redis is back. Raises BadThreadId, BadState, CaseConflict, StartPending.
        """
        definition = self._definition(workflow)
        limit = self.settings.max_state_bytes
        ring, new = births.start(self.db, definition, thread_id, state, max_state_bytes=limit)
        rung = new and self._ring([ring])
        return Started(id=ring.case, workflow=ring.workflow, thread_id=thread_id, new=new, rung=rung)

    def signal(
        self,
        workflow: str | Workflow,
        thread_id: str,
        name: str,
        payload: Any = None,
        *,
        actor: str | None = None,
        dedupe_key: str | None = None,
    ) -> Receipt:
        """Send a signal. If the case waits for it, it goes on at once; otherwise the signal is kept until it does.

        dedupe_key: sent twice with one key, it counts once. Raises BadSignal, UnknownCase, CaseFinished,
        BadPayload, AlreadyDecided.
        """
        named = _name(workflow), check_thread_id(thread_id)
        sent = Signal(name=name, payload=payload, actor=actor, dedupe_key=dedupe_key)
        limit = self.settings.max_state_bytes
        receipt = signals.send(self.db, *named, sent, fits=self.registry.fits, max_bytes=limit)
        return receipt if receipt.ring is None else replace(receipt, rung=self._ring([receipt.ring]))

    def get(self, workflow: str | Workflow, thread_id: str) -> Case:
        """The case with its state. Raises UnknownCase."""
        case = reads.get(self.db, self._id(workflow, thread_id))
        if case is None:
            raise UnknownCase(_name(workflow), thread_id)
        return case

    def wait(self, workflow: str | Workflow, thread_id: str, timeout: float = 60.0) -> Case:
        """Poll, with a growing interval, until the case has ended. Raises UnknownCase, WaitTimeout."""
        case_key = self._id(workflow, thread_id)
        end, pause = time.monotonic() + timeout, 0.02
        while True:
            case = reads.find(self.db, case_key)
            if case is None:
                raise UnknownCase(_name(workflow), thread_id)
            if case.ended:
                return self.get(workflow, thread_id)
            if time.monotonic() + pause > end:
                where = f"it is {case.status} at {case.step}"
                raise WaitTimeout(case.workflow, thread_id, f"{where} after {timeout:g} s, and goes on.")
            time.sleep(pause)
            pause = min(1.0, pause * 1.3)

    def history(self, workflow: str | Workflow, thread_id: str) -> Sequence[Event]:
        """All that happened to the case, in order. Raises UnknownCase."""
        case_key = self._id(workflow, thread_id)
        if reads.find(self.db, case_key) is None:
            raise UnknownCase(_name(workflow), thread_id)
        return reads.history(self.db, case_key)

    def waits(self, workflow: str | Workflow, thread_id: str) -> Sequence[dict[str, Any]]:
        """What the case waits for: name, prompt, the payload's JSON Schema, deadline."""
        return reads.open_waits(self.db, self._id(workflow, thread_id))

    def retry(self, workflow: str | Workflow, thread_id: str) -> bool:
        """Let a held case go on with the same step, under the same idempotency key; whether a worker was told at once.

        Raises UnknownCase, and CaseError if it isn't held.
        """
        ring = recovery.retry(self.db, self._id(workflow, thread_id))
        if ring is None:
            case = self.get(workflow, thread_id)
            raise CaseError(case.workflow, thread_id, f"it is {case.status}, and only a held case can be retried.")
        return self._ring([ring])

    # ----------------------------------------------------------------------------------------------- many cases
    def list(
        self,
        *,
        workflow: str | None = None,
        status: str | None = None,
        step: str | None = None,
        before: datetime | None = None,
        limit: int = 50,
    ) -> Sequence[Case]:
        """The newest cases that match, without their states. before: the last `created_at` of the page before."""
        return reads.select(self.db, workflow=workflow, status=status, step=step, before=before, limit=limit)

    def counts(self, workflow: str | None = None) -> dict[str, int]:
        """How many cases there are by status."""
        return reads.counts(self.db, workflow)

    def nodes(self) -> Sequence[NodeView]:
        """The workers whose heartbeat is younger than a lease."""
        return [node for node in nodes.everyone(self.db) if node.silent < self.settings.lease_seconds]

    # ------------------------------------------------------------------------------------------------ the client
    def close(self) -> None:
        """Close this process's connections."""
        self.db.dispose()
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
        return case_id(_name(workflow), check_thread_id(thread_id))

    def _ring(self, rings: Sequence[Ring]) -> bool:
        """Ring unless the broker was away a moment ago; the sweep rings otherwise."""
        if time.monotonic() < self._silent_until:
            return False
        rung = self._bell.ring(rings) == len(rings)
        if not rung:
            self._silent_until = time.monotonic() + SILENCE
        return rung


def _name(workflow: str | Workflow) -> str:
    return workflow.name if isinstance(workflow, Workflow) else workflow


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
