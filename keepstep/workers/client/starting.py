"""Start cases: one or many, in a transaction of their own or in the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from keepstep.checkpoint import births, reads, steering
from keepstep.checkpoint.after_commit import after_commit
from keepstep.checkpoint.births import Birth, Input
from keepstep.checkpoint.lent import ByAlchemy, lent
from keepstep.checkpoint.steered import Order
from keepstep.steps.errors import BadStart, CaseError, CaseExists
from keepstep.steps.terms import IfExists, Tags, Terms
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected


@dataclass(frozen=True, kw_only=True)
class Started:
    """A case that is stored. new: this call made it; otherwise it was there, started with the same input.

    restarted: it had ended, and begins again.
    rung: a worker was told at once; otherwise (Redis is away, the case is not new, is delayed, or is part of the
    caller's transaction) it is told after the caller's commit, or the sweep does it. error: only from `start_many`,
    why this one is refused: CaseConflict, CaseExists or StartPending.
    """

    id: UUID
    workflow: str
    thread_id: str
    new: bool
    rung: bool
    restarted: bool = False
    error: CaseError | None = None


class Starting(Connected):
    """The part of the client that starts cases."""

    def start(
        self,
        workflow: str | Workflow,
        thread_id: str,
        state: Input,
        *,
        connection: Any = None,
        if_exists: IfExists = "return",
        tags: Tags | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> Started:
        """Store a case and ring for its first step. The same thread id with the same input returns the same case.

        state: the initial state, as a dict or as the model. Once this returns, the case is in PostgreSQL; if Redis is
        away, it starts when Redis is back.

        connection: start it in the caller's own transaction, which decides whether there is a case: a SQLAlchemy
        Connection or Session (a worker is told after the commit), or a raw connection of psycopg2 or psycopg (call
        `ring` after the commit, or leave it to the sweep). It is neither committed nor rolled back here, and a
        thread id that is taken doesn't abort it.
        if_exists: "return" the case if it was started with the same input, "raise" CaseExists, or "restart" one that
        has ended, as a new run with this input and new idempotency keys; what its steps did outside is done again.
        tags: JSON by name, to find it in lists. delay: a timedelta or seconds before the first step. priority: 0 to
        9, the most urgent; 5 by default. queue: for all its steps, instead of theirs.

        Raises BadThreadId, BadState, BadStart, BadConnection, CaseConflict, CaseExists, StartPending.
        """
        terms = Terms.of(if_exists=if_exists, tags=tags, delay=delay, priority=priority, queue=queue)
        [started] = self._start(workflow, [(thread_id, state)], terms, connection)
        if started.error is not None:
            raise started.error
        return started

    def start_many(
        self,
        workflow: str | Workflow,
        cases: Mapping[str, Input] | Iterable[tuple[str, Input]],
        *,
        connection: Any = None,
        if_exists: IfExists = "return",
        tags: Tags | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> Sequence[Started]:
        """Store many cases, a thousand in a statement, and ring for their first steps; what became of each, in order.

        cases: states by thread id, or pairs. Everything is checked before anything is written: a bad thread id or
        state refuses them all. A thread id that is taken refuses itself only, and says why in `error`. Each thousand
        is a transaction, so a call that is cut short has stored some thousands: call it again. With a connection, all
        of them are the caller's. The other arguments are those of `start`, and go for all cases.

        Raises BadThreadId, BadState, BadStart, BadConnection, StartPending.
        """
        terms = Terms.of(if_exists=if_exists, tags=tags, delay=delay, priority=priority, queue=queue)
        pairs = cases.items() if isinstance(cases, Mapping) else cases
        return self._start(workflow, pairs, terms, connection)

    def ring(self, started: Started | Iterable[Started]) -> int:
        """Tell workers about cases that were started in a transaction which is committed now; how many were rung.

        Only needed after a raw connection's commit: without it, the sweep tells them a second or two later. Cases that
        are not queued (rolled back, delayed, on their way already) are passed over.
        """
        given = [started] if isinstance(started, Started) else list(started)
        rings = reads.queued(self.db, [case.id for case in given])
        return len(rings) if self._ring(rings) else 0

    def _start(
        self, workflow: str | Workflow, pairs: Iterable[tuple[str, Input]], terms: Terms, connection: Any
    ) -> list[Started]:
        definition = self._definition(workflow)
        theirs = None if connection is None else lent(connection)
        if theirs is not None and terms.if_exists == "restart":
            raise BadStart("if_exists='restart' can't be part of the caller's transaction: a restart has its own")
        if terms.if_exists == "restart" and terms.delay is not None:
            raise BadStart("if_exists='restart' takes no delay: a case that has ended restarts at once")
        limit = self.settings.max_state_bytes
        born = births.start_many(self.db, definition, pairs, max_state_bytes=limit, terms=terms, connection=theirs)
        rings = [birth.ring for birth in born if birth.ring is not None]
        rung = False
        if theirs is None:
            rung = bool(rings) and self._ring(rings)
        elif rings and isinstance(theirs, ByAlchemy):
            after_commit(theirs.connection, lambda: self._ring(rings))
        return [self._started(definition, birth, terms, rung=rung) for birth in born]

    def _started(self, definition: Workflow, birth: Birth, terms: Terms, *, rung: bool) -> Started:
        if birth.restart_with is not None:
            return self._restarted(definition, birth, birth.restart_with, terms)
        return Started(
            id=birth.id,
            workflow=definition.name,
            thread_id=birth.thread_id,
            new=birth.new,
            rung=rung and birth.ring is not None,
            error=birth.error,
        )

    def _restarted(self, definition: Workflow, birth: Birth, sent: Mapping[str, Any], terms: Terms) -> Started:
        """Whoever asks a start to restart has said that effects may repeat; under new keys, as a new run."""
        order = Order(reason="started again, with if_exists='restart'", repeat_effects=True)
        limit = self.settings.max_state_bytes
        named = definition.name, birth.thread_id
        begun = Started(id=birth.id, workflow=definition.name, thread_id=birth.thread_id, new=False, rung=False)
        try:
            steered = steering.restart(
                self.db,
                *named,
                order,
                definition,
                sent=sent,
                only_ended=True,
                terms=terms,
                max_state_bytes=limit,
            )
        except CaseExists as error:  # somebody else was quicker
            return replace(begun, error=error)
        return replace(begun, restarted=True, rung=steered.ring is not None and self._ring([steered.ring]))
