"""Look at cases and at workers. Nothing here changes anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from keepstep.checkpoint import fan_reads, ledger, nodes, reads
from keepstep.checkpoint.delta import Operation
from keepstep.checkpoint.erasure import unknown
from keepstep.checkpoint.facts import facts
from keepstep.checkpoint.fan_reads import BranchView
from keepstep.checkpoint.filters import Filter
from keepstep.checkpoint.ledger import RecordedCall
from keepstep.checkpoint.mask import Mask, mask
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.reads import Case, Event, Page
from keepstep.checkpoint.why import Why, why
from keepstep.steps.errors import UnknownCheckpoint, WaitTimeout
from keepstep.steps.terms import Tags
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of


class Looking(Connected):
    """The part of the client that looks."""

    def get(self, workflow: str | Workflow, thread_id: str, *, last: int | None = None) -> Case:
        """The case with its state. Raises UnknownCase.

        last: of each `Log` only so many items, behind a text that counts those before; None reads all of them.
        """
        case = reads.get(self.db, self._id(workflow, thread_id), last=last)
        if case is None:
            raise unknown(self.db, name_of(workflow), thread_id)
        return case

    def wait(self, workflow: str | Workflow, thread_id: str, timeout: float = 60.0) -> Case:
        """Poll, with a growing interval, until the case has ended. Raises UnknownCase, WaitTimeout."""
        end, pause = time.monotonic() + timeout, 0.02
        while True:
            case = self._find(workflow, thread_id)
            if case.ended:
                return self.get(workflow, thread_id)
            if time.monotonic() + pause > end:
                where = f"it is {case.status} at {case.step}"
                raise WaitTimeout(case.workflow, thread_id, f"{where} after {timeout:g} s, and goes on.")
            time.sleep(pause)
            pause = min(1.0, pause * 1.3)

    def why(self, workflow: str | Workflow, thread_id: str) -> Why:
        """What the case waits for, and what would move it: as text, `str(...)`. Raises UnknownCase."""
        return why(facts(self.db, self._find(workflow, thread_id), self.nodes()))

    def history(self, workflow: str | Workflow, thread_id: str) -> Sequence[Event]:
        """All that happened to the case, in order. Raises UnknownCase."""
        return reads.history(self.db, self._find(workflow, thread_id).id)

    def written_by(self, workflow: str | Workflow, thread_id: str) -> dict[str, Any]:
        """What wrote the latest checkpoint: `schema_version`, and `code` as in the history. Raises UnknownCase."""
        return reads.written_by(self.db, self._find(workflow, thread_id).id)

    def branches(
        self,
        workflow: str | Workflow,
        thread_id: str,
        *,
        seq: int | None = None,
        status: str | None = None,
        after: int = -1,
        limit: int = 100,
    ) -> Sequence[BranchView]:
        """The branches of a case's latest fan-out, or of the one at checkpoint `seq`, in the order of its list.

        status: only these. after: those behind this number. Raises UnknownCase, BadFilter.
        """
        case = self._find(workflow, thread_id)
        return fan_reads.branches(self.db, case.id, seq=seq, status=status, after=after, limit=limit)

    def calls(self, workflow: str | Workflow, thread_id: str) -> Sequence[RecordedCall]:
        """All that the case called outside, the oldest first: its steps' attempts and their recorded calls.

        With idempotency keys and costs. Raises UnknownCase.
        """
        return ledger.recorded(self.db, self._find(workflow, thread_id))

    def state(self, workflow: str | Workflow, thread_id: str, *, seq: int | None = None) -> dict[str, Any]:
        """The state as checkpoint `seq` left it, by default the latest. Raises UnknownCase, UnknownCheckpoint."""
        case = self._find(workflow, thread_id)
        at = case.seq if seq is None else seq
        self._refuse_unknown(case, at)
        return reads.state_at(self.db, case.id, at)

    def diff(self, workflow: str | Workflow, thread_id: str, a: int, b: int) -> Sequence[Operation]:
        """What changed in the state from checkpoint `a` to `b`, as RFC 6902 operations.

        Raises UnknownCase, UnknownCheckpoint.
        """
        case = self._find(workflow, thread_id)
        for seq in (a, b):
            self._refuse_unknown(case, seq)
        return reads.changes(self.db, case.id, a, b)

    def mask(self, workflow: str | Workflow, thread_id: str) -> Mask:
        """What hides the case's secret fields, and their values, in whatever is shown of it."""
        name = name_of(workflow)
        known = self.registry.get(name).secrets if name in self.registry.versions else ()
        return mask(self.db, self._id(workflow, thread_id), known)

    def list(
        self,
        *,
        workflow: str | Workflow | None = None,
        status: str | None = None,
        step: str | None = None,
        tags: Tags | None = None,
        older_than: timedelta | float | None = None,
        error: str | None = None,
        begins: str | None = None,
        parent: tuple[str, str] | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Page:
        """The newest cases that match, without their states.

        step: where live ones stand. tags: they have all of these. older_than: a timedelta or seconds that they have
        been at their step, or ended. error: a text in why they are held, back off or failed, in any case of letters.
        begins: how their thread ids begin. parent: the workflow and thread id of the case that they are branches of.
        cursor: the `cursor` of the page before, which is None after the last. Raises BadFilter, BadCursor.
        """
        which = Filter.of(
            workflow=workflow,
            status=status,
            step=step,
            tags=tags,
            older_than=older_than,
            error=error,
            begins=begins,
            parent=parent,
        )
        return reads.select(self.db, which, cursor=cursor, limit=limit)

    def counts(self, workflow: str | Workflow | None = None) -> dict[str, int]:
        """How many cases there are by status. Raises BadFilter."""
        return reads.counts(self.db, None if workflow is None else name_of(workflow))

    def nodes(self) -> Sequence[NodeView]:
        """The workers whose heartbeat is younger than a lease."""
        return [node for node in nodes.everyone(self.db) if node.silent < self.settings.lease_seconds]

    def depth(self, queue: str) -> int | None:
        """How many messages wait in the queue; None if the broker doesn't answer."""
        return self._bell.depth(queue)

    def _find(self, workflow: str | Workflow, thread_id: str) -> Case:
        case = reads.find(self.db, self._id(workflow, thread_id))
        if case is None:
            raise unknown(self.db, name_of(workflow), thread_id)
        return case

    def _refuse_unknown(self, case: Case, seq: int) -> None:
        if not reads.oldest(self.db, case.id) <= seq <= case.seq:
            raise UnknownCheckpoint(case.workflow, case.thread_id, seq, case.seq)
