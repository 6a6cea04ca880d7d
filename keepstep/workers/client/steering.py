"""Steer cases: an operator's verbs, each with who wants it and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from keepstep.checkpoint import reads, steering
from keepstep.checkpoint.steered import Order, Steered
from keepstep.steps.errors import UnknownCase
from keepstep.steps.keys import case_id
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of, named

Named = str | Workflow


class Steering(Connected):
    """The part of the client that moves cases by hand.

    Each verb takes `actor` and `reason`, which the case's history keeps, and returns where the case stands now. Each
    raises UnknownCase, BadAudit, and a class of its own if the case's status doesn't allow it. Those that make new
    idempotency keys raise EffectsWouldRepeat unless `repeat_effects=True`. Those that put a case elsewhere raise
    MovedOn if it has gone on since the checkpoint that the caller has `seen` (default: the latest as the call begins).
    """

    def cancel(
        self, workflow: Named, thread_id: str, *, actor: str | None = None, reason: str | None = None
    ) -> Steered:
        """End the case as cancelled. A running step is told by `call.cancelled()`; its late result is kept as late.

        Raises NotCancellable.
        """
        order = Order(actor=actor, reason=reason)
        return self._rung(steering.cancel(self.db, *named(workflow, thread_id), order))

    def pause(self, workflow: Named, thread_id: str, *, actor: str | None = None, reason: str | None = None) -> Steered:
        """Let the running step end and be kept, and begin no other. Raises NotPausable."""
        order = Order(actor=actor, reason=reason)
        return steering.pause(self.db, *named(workflow, thread_id), order)

    def resume(
        self, workflow: Named, thread_id: str, *, actor: str | None = None, reason: str | None = None
    ) -> Steered:
        """End a pause. Raises NotResumable."""
        order = Order(actor=actor, reason=reason)
        return self._rung(steering.resume(self.db, *named(workflow, thread_id), order))

    def retry(
        self,
        workflow: Named,
        thread_id: str,
        *,
        new_key: bool = False,
        repeat_effects: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Steered:
        """Run the step of a held or failed case again, all retries anew, under the same idempotency key.

        new_key: under another one, since a provider may replay its cached error under the old. A failed case needs its
        workflow's code. Raises NotRetryable, UnknownWorkflow, UnknownStep.
        """
        order = Order(actor=actor, reason=reason, repeat_effects=repeat_effects)
        case = named(workflow, thread_id)

        def code() -> Workflow:
            return self._definition(workflow)

        if not new_key:
            return self._rung(steering.retry(self.db, *case, order, code))
        limit = self.settings.max_state_bytes
        return self._rung(steering.retry_anew(self.db, *case, order, code, max_state_bytes=limit))

    def skip(
        self,
        workflow: Named,
        thread_id: str,
        *,
        update: Mapping[str, Any] | None = None,
        to: str | None = None,
        seen: int | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Steered:
        """Go on behind the step, or the wait, that the case stands at, as if the step had returned `update`.

        to: the step to go on with, instead of the next. Raises NotSkippable, UnknownWorkflow, UnknownStep, BadState,
        NewerState.
        """
        steered = steering.skip(
            self.db,
            *named(workflow, thread_id),
            self._order(workflow, thread_id, seen, actor=actor, reason=reason),
            self._definition(workflow),
            update=update or {},
            to=to,
            max_state_bytes=self.settings.max_state_bytes,
        )
        return self._rung(steered)

    def rewind(
        self,
        workflow: Named,
        thread_id: str,
        *,
        to: int,
        repeat_effects: bool = False,
        seen: int | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Steered:
        """Go on from checkpoint `to`, by a new checkpoint; the past stays. Also when the case has ended.

        Raises NotRewindable, UnknownWorkflow, UnknownStep.
        """
        steered = steering.rewind(
            self.db,
            *named(workflow, thread_id),
            self._order(workflow, thread_id, seen, actor=actor, reason=reason, repeat_effects=repeat_effects),
            self._definition(workflow),
            to=to,
            max_state_bytes=self.settings.max_state_bytes,
        )
        return self._rung(steered)

    def restart(
        self,
        workflow: Named,
        thread_id: str,
        *,
        repeat_effects: bool = False,
        seen: int | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Steered:
        """Begin again with what was sent at the start, as a new run with keys of its own. Also when the case has ended.

        Raises UnknownWorkflow, and BadState if what was sent doesn't fit today's model.
        """
        steered = steering.restart(
            self.db,
            *named(workflow, thread_id),
            self._order(workflow, thread_id, seen, actor=actor, reason=reason, repeat_effects=repeat_effects),
            self._definition(workflow),
            max_state_bytes=self.settings.max_state_bytes,
        )
        return self._rung(steered)

    def fork(
        self,
        workflow: Named,
        thread_id: str,
        *,
        at: int,
        new_thread_id: str,
        repeat_effects: bool = False,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Steered:
        """Start another case from checkpoint `at` of this one, which stays as it is; where the new one stands.

        Raises NotForkable, CaseConflict (the new thread id is taken), UnknownWorkflow, UnknownStep, BadThreadId.
        """
        steered = steering.fork(
            self.db,
            *named(workflow, thread_id),
            Order(actor=actor, reason=reason, repeat_effects=repeat_effects),
            self._definition(workflow),
            at=at,
            new_thread_id=new_thread_id,
            max_state_bytes=self.settings.max_state_bytes,
        )
        return self._rung(steered)

    def _order(self, workflow: Named, thread_id: str, seen: int | None, **said: Any) -> Order:
        """With what the caller has seen of the case; what they don't say is what is there when the call begins."""
        case = reads.find(self.db, self._id(workflow, thread_id))
        if case is None:
            raise UnknownCase(name_of(workflow), thread_id)
        return Order(seen=case.seq if seen is None else seen, ended=case.ended, **said)

    def _rung(self, steered: Steered) -> Steered:
        self._follow(case_id(steered.workflow, steered.thread_id))
        return steered if steered.ring is None else replace(steered, rung=self._ring([steered.ring]))
