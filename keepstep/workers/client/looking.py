"""Look at cases and at workers. Nothing here changes anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from keepstep.checkpoint import nodes, reads
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.reads import Case, Event
from keepstep.steps.errors import UnknownCase, WaitTimeout
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of


class Looking(Connected):
    """The part of the client that looks."""

    def get(self, workflow: str | Workflow, thread_id: str) -> Case:
        """The case with its state. Raises UnknownCase."""
        case = reads.get(self.db, self._id(workflow, thread_id))
        if case is None:
            raise UnknownCase(name_of(workflow), thread_id)
        return case

    def wait(self, workflow: str | Workflow, thread_id: str, timeout: float = 60.0) -> Case:
        """Poll, with a growing interval, until the case has ended. Raises UnknownCase, WaitTimeout."""
        case_key = self._id(workflow, thread_id)
        end, pause = time.monotonic() + timeout, 0.02
        while True:
            case = reads.find(self.db, case_key)
            if case is None:
                raise UnknownCase(name_of(workflow), thread_id)
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
            raise UnknownCase(name_of(workflow), thread_id)
        return reads.history(self.db, case_key)

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
