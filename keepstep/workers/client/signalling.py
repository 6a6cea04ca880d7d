"""Send signals to cases, and see what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keepstep.checkpoint import reads, signals
from keepstep.checkpoint.signals import Receipt, Signal
from keepstep.steps.keys import check_thread_id
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of


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
    ) -> Receipt:
        """Send a signal. If the case waits for it, it goes on at once; otherwise the signal is kept until it does.

        dedupe_key: sent twice with one key, it counts once. Raises BadSignal, UnknownCase, CaseFinished,
        BadPayload, AlreadyDecided.
        """
        named = name_of(workflow), check_thread_id(thread_id)
        sent = Signal(name=name, payload=payload, actor=actor, dedupe_key=dedupe_key)
        limit = self.settings.max_state_bytes
        receipt = signals.send(self.db, *named, sent, fits=self.registry.fits, max_bytes=limit)
        return receipt if receipt.ring is None else replace(receipt, rung=self._ring([receipt.ring]))

    def waits(self, workflow: str | Workflow, thread_id: str) -> Sequence[dict[str, Any]]:
        """What the case waits for: name, prompt, the payload's JSON Schema, deadline."""
        return reads.open_waits(self.db, self._id(workflow, thread_id))
