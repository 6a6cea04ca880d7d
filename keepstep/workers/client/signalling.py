"""Send signals to cases, and see what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keepstep.checkpoint import reads, signals, waits
from keepstep.checkpoint.signals import Receipt, Signal
from keepstep.checkpoint.waits import Asked
from keepstep.steps.approval import Approval
from keepstep.steps.keys import case_id
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of, named


class Signalling(Connected):
    """The part of the client that speaks to cases."""

    def signal(
        self,
        workflow: str | Workflow,
        thread_id: str,
        name: str,
        payload: Any = None,
        *,
        actor: str | None = None,
        dedupe_key: str | None = None,
        digest: str | None = None,
    ) -> Receipt:
        """Send a signal. If the case waits for it, it goes on at once; otherwise the signal is kept until it does.

        dedupe_key: sent twice with one key, it counts once. digest: of what was shown to whoever decides (see
        `inbox`); refused if something else is being asked by now. Raises BadSignal, UnknownCase, CaseFinished,
        BadPayload, StaleDecision, AlreadyDecided.
        """
        sent = Signal(name=name, payload=payload, actor=actor, dedupe_key=dedupe_key, digest=digest)
        return self._send(workflow, thread_id, sent)

    def send(
        self,
        workflow: str | Workflow,
        thread_id: str,
        name: str,
        message: Any = None,
        *,
        actor: str | None = None,
        dedupe_key: str | None = None,
    ) -> Receipt:
        """Put a message into the stream `name`, which the case takes with `receive`, first in, first out.

        Raises BadSignal, UnknownCase, CaseFinished, BadPayload.
        """
        sent = Signal(name=name, payload=message, actor=actor, dedupe_key=dedupe_key, stream=True)
        return self._send(workflow, thread_id, sent)

    def approve(
        self,
        workflow: str | Workflow,
        thread_id: str,
        *,
        actor: str,
        name: str = "approval",
        note: str | None = None,
        digest: str | None = None,
    ) -> Receipt:
        """Say yes, as an `Approval`. Raises as `signal` does."""
        return self._verdict(workflow, thread_id, name, approved=True, actor=actor, note=note, digest=digest)

    def reject(
        self,
        workflow: str | Workflow,
        thread_id: str,
        *,
        actor: str,
        name: str = "approval",
        note: str | None = None,
        digest: str | None = None,
    ) -> Receipt:
        """Say no, as an `Approval`; where several approvers are needed, one refusal is enough. Raises as `signal`."""
        return self._verdict(workflow, thread_id, name, approved=False, actor=actor, note=note, digest=digest)

    def inbox(self, *, workflow: str | Workflow | None = None, limit: int = 100) -> Sequence[Asked]:
        """The decisions that are waited for, the oldest first. Raises BadFilter."""
        return waits.inbox(self.db, workflow=None if workflow is None else name_of(workflow), limit=limit)

    def waits(self, workflow: str | Workflow, thread_id: str) -> Sequence[dict[str, Any]]:
        """What the case waits for, each with name, prompt, the payload's JSON Schema as `schema`, deadline, digest."""
        return reads.open_waits(self.db, self._id(workflow, thread_id))

    def _verdict(
        self,
        workflow: str | Workflow,
        thread_id: str,
        name: str,
        *,
        approved: bool,
        actor: str,
        note: str | None,
        digest: str | None,
    ) -> Receipt:
        verdict = Approval(approved=approved, actor=actor, note=note).model_dump(mode="json")
        return self.signal(workflow, thread_id, name, verdict, actor=actor, digest=digest)

    def _send(self, workflow: str | Workflow, thread_id: str, signal: Signal) -> Receipt:
        case, limit = named(workflow, thread_id), self.settings.max_state_bytes
        receipt = signals.send(self.db, *case, signal, code=self.registry, max_bytes=limit)
        if receipt.fate == "delivered" and receipt.ring is None:  # it may have been a branch's last step
            self._follow(case_id(*case))
        return receipt if receipt.ring is None else replace(receipt, rung=self._ring([receipt.ring]))
