"""Steer cases: an operator's verbs."""

from __future__ import annotations

from keepstep.checkpoint import reads, recovery
from keepstep.steps.errors import CaseError, UnknownCase
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of


class Steering(Connected):
    """The part of the client that moves cases by hand."""

    def retry(self, workflow: str | Workflow, thread_id: str) -> bool:
        """Let a held case go on with the same step, under the same idempotency key; whether a worker was told at once.

        Raises UnknownCase, and CaseError if it isn't held.
        """
        ring = recovery.retry(self.db, self._id(workflow, thread_id))
        if ring is None:
            case = reads.find(self.db, self._id(workflow, thread_id))
            if case is None:
                raise UnknownCase(name_of(workflow), thread_id)
            raise CaseError(case.workflow, thread_id, f"it is {case.status}, and only a held case can be retried.")
        return self._ring([ring])
