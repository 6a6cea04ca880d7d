"""Start cases."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from keepstep.checkpoint import births
from keepstep.checkpoint.births import Input
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected


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


class Starting(Connected):
    """The part of the client that starts cases."""

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
