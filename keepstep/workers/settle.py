"""Carry out a decision: commit it through restarts of the database, or keep the result as late."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from uuid import UUID

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from keepstep.checkpoint.chain import Link
from keepstep.checkpoint.claims import Claim, claim_again
from keepstep.checkpoint.commits import Committed, Kept, commit, commit_many, landed, record_late, weigh
from keepstep.checkpoint.database import may_pass
from keepstep.checkpoint.fold import is_due
from keepstep.steps.decide import Decision, describe, hold
from keepstep.steps.errors import DatabaseUnavailable, StateTooLarge
from keepstep.steps.value import value
from keepstep.workers.engine import Engine
from keepstep.workers.failpoints import reach
from keepstep.workers.patience import COMMIT, patient
from keepstep.workers.transaction import Transaction, TransactionLost

log = logging.getLogger("keepstep.step")


@value
class Done:
    """A step that has returned, and what is to become of its case. took: seconds, from its turn to its return.

    onward: the next step's lease, to be taken with the commit.
    """

    claim: Claim
    decision: Decision
    took: float
    onward: UUID | None = None


def settle(
    engine: Engine,
    claimed: Claim,
    decision: Decision,
    began: float,
    transaction: Transaction | None,
    *,
    onward: UUID | None = None,
) -> Committed | None:
    """Commit. None: the lease was lost, and the result is kept as late. onward: the next step's lease, to be taken too.

    A late worker whose case is still queued at its seq (the claim was lost in a crash of the database, or somebody
    took this worker for dead), or is held or to be verified because of this very attempt, claims it again under its own
    lease and commits, so the call isn't made twice. What a transactional step wrote is rolled back instead.
    """
    decision, stored = _weighed(engine, claimed, decision)
    if transaction is not None and (stored is not None or decision.move == "fail"):
        committed = _commit_together(engine, claimed, decision, stored, began, transaction)
    else:
        if transaction is not None:
            transaction.rollback()
        committed = _commit(engine, claimed, decision, stored, began, onward=onward)
        if committed is None and stored is not None and patient(COMMIT)(claim_again, engine.db, claimed):
            committed = _commit(engine, claimed, decision, stored, began)
    if committed is None:
        log.warning("%s: late: the lease was lost; what it changed is kept in the history", name(claimed))
        patient(COMMIT)(record_late, engine.db, claimed, decision)
    return committed


def settle_many(engine: Engine, done: Sequence[Done]) -> Iterator[Committed]:
    """Commit decisions to go on or to complete, together. What can't be is settled by itself, as if it were alone.

    Whatever befalls one of them is logged, and leaves the others alone; the sweep recovers it.
    """
    kept: dict[UUID, Kept] = {}
    for one in done:
        decision, stored = _weighed(engine, one.claim, one.decision)
        if stored is not None:
            version = engine.registry.versions[one.claim.workflow]
            kept[one.claim.delivery.case] = Kept(one.claim, decision, stored, version, one.took, one.onward)
    together: dict[UUID, Committed] = {}
    if len(kept) > 1:
        try:
            together = patient(COMMIT)(commit_many, engine.db, list(kept.values()))
        except DatabaseUnavailable:
            raise
        except Exception:  # one of them is refused: each tells for itself which
            log.exception("a batch of %s steps is committed one by one", len(kept))
    for one in done:
        committed = together.get(one.claim.delivery.case)
        if committed is not None:
            _log(one.claim, one.decision)
        else:
            committed = _settle_alone(engine, one)
        if committed is not None:
            yield committed


def _settle_alone(engine: Engine, one: Done) -> Committed | None:
    try:
        return settle(engine, one.claim, one.decision, time.monotonic() - one.took, None, onward=one.onward)
    except Exception:
        log.exception("%s: an error of the engine; the sweep recovers", name(one.claim))
        return None


def name(claimed: Claim) -> str:
    """An attempt, as the log and people name it."""
    at = f"{claimed.step}#{claimed.delivery.seq} attempt {claimed.attempt}"
    return f"{claimed.workflow}/{claimed.thread_id} {at}"


def _commit(
    engine: Engine,
    claimed: Claim,
    decision: Decision,
    stored: Link | None,
    began: float,
    *,
    onward: UUID | None = None,
) -> Committed | None:
    version = engine.registry.versions[claimed.workflow]
    took = time.monotonic() - began
    write = patient(COMMIT)
    try:
        committed: Committed | None = write(
            commit, engine.db, claimed, decision, stored, version=version, took=took, onward=onward
        )
    except SQLAlchemyError as error:  # PostgreSQL is there, and refuses: nothing was written
        log.exception("%s: the database refuses the commit; the case is held", name(claimed))
        decision = hold("the database refuses the commit", describe(error))
        committed = write(commit, engine.db, claimed, decision, None, version=version, took=took)
    if committed is not None:
        _log(claimed, decision)
    return committed


def _commit_together(
    engine: Engine,
    claimed: Claim,
    decision: Decision,
    stored: Link | None,
    began: float,
    transaction: Transaction,
) -> Committed | None:
    """Commit in the step's own transaction. TransactionLost if it came to nothing, because its connection went."""
    version = engine.registry.versions[claimed.workflow]
    took = time.monotonic() - began
    try:
        committed = commit(transaction, claimed, decision, stored, version=version, took=took)
        if committed is None:
            transaction.rollback()
            return None
        reach("written", claimed.delivery.case, claimed.delivery.seq)
        transaction.commit()
    except DBAPIError as error:
        transaction.rollback()
        if not may_pass(error):
            log.exception("%s: the database refuses the commit; the case is held", name(claimed))
            refused = hold("the database refuses the commit", describe(error))
            return _commit(engine, claimed, refused, None, began)
        committed = patient(COMMIT)(landed, engine.db, claimed, decision)
        if committed is None:
            raise TransactionLost(f"{type(error.orig).__name__}: {error.orig}") from error
    _log(claimed, decision)
    return committed


def _weighed(engine: Engine, claimed: Claim, decision: Decision) -> tuple[Decision, Link | None]:
    workflow = engine.registry.get(claimed.workflow)
    renew = workflow.schema_version != claimed.schema_version or is_due(claimed, workflow.keep_checkpoints)
    try:
        most, large = engine.settings.max_state_bytes, engine.settings.large_value_bytes
        return decision, weigh(claimed, decision, max_state_bytes=most, snapshot=renew, large=large)
    except StateTooLarge as error:
        return hold("bad result", describe(error)), None


def _log(claimed: Claim, decision: Decision) -> None:
    level = logging.WARNING if decision.move in ("hold", "fail", "back_off", "defer") else logging.INFO
    if not log.isEnabledFor(level):
        return
    target = f" -> {decision.target.step}" if decision.target else ""
    why = f": {decision.error.get('message')}" if decision.error else ""
    extra = {
        "workflow": claimed.workflow,
        "thread_id": claimed.thread_id,
        "step": claimed.step,
        "seq": claimed.delivery.seq,
        "attempt": claimed.attempt,
        "move": decision.move,
        "target": decision.target and decision.target.step,
    }
    log.log(level, "%s: %s%s%s", name(claimed), decision.move, target, why, extra=extra)
