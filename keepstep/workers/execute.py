"""The hot path: what happens when a message arrives. Two statements, one durable flush, one publish."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from keepstep.checkpoint import recovery, signals
from keepstep.checkpoint.chain import Link
from keepstep.checkpoint.claims import Claim, claim
from keepstep.checkpoint.commits import Committed, commit, record_late, weigh
from keepstep.checkpoint.ring import Delivery
from keepstep.steps import state as states
from keepstep.steps.decide import Decision, View, decide, describe, exhausted, hold
from keepstep.steps.errors import BadState, DatabaseUnavailable, StateTooLarge
from keepstep.steps.moves import Status
from keepstep.workers import process
from keepstep.workers.call_step import call_step
from keepstep.workers.engine import Engine
from keepstep.workers.failpoints import reach
from keepstep.workers.interrupt import uninterrupted

CLAIM_PATIENCE = 15.0
"""Seconds that a claim tries to reach the database. Giving up costs a delay: the sweep rings again."""
COMMIT_PATIENCE = 600.0
"""Seconds that a commit tries: a result that cost money isn't thrown away because PostgreSQL restarts."""
DEFER_SECONDS = 5.0

log = logging.getLogger("keepstep.step")


def execute(engine: Engine, delivery: Delivery, *, redelivered: bool = False) -> None:
    """Run the step that a message names, if it is still to be run: claim, call, commit, publish."""
    with uninterrupted():  # a timeout interrupts the call, and nothing else
        claimed = take(engine, delivery, redelivered=redelivered)  # statement 1
        if claimed is None:
            return  # stale, a duplicate, paused, taken, too new: nothing to do
        began = time.monotonic()
        reach("claimed", claimed.step)
        decision = work(engine, claimed)  # user code; nothing is held
        reach("called", claimed.step)
        committed = settle(engine, claimed, decision, began)  # statement 2, fenced
        if committed is None:
            return
        reach("committed", claimed.step)
        if committed.ring is not None:
            engine.bell.ring([committed.ring])  # only after the commit
        elif decision.wait is not None and (ring := signals.deliver(engine.db, delivery.case)):
            engine.bell.ring([ring])  # the signal was there before the wait
        reach("published", claimed.step)


def take(engine: Engine, delivery: Delivery, *, redelivered: bool) -> Claim | None:
    """Claim. A redelivery that finds its case with a dead process of this host recovers it first, then claims again."""
    lease, claimant = uuid4(), engine.claimant
    claimed = _patient(CLAIM_PATIENCE)(claim, engine.db, delivery, claimant, lease)
    if claimed is None and redelivered and _release_dead(engine, delivery):
        claimed = _patient(CLAIM_PATIENCE)(claim, engine.db, delivery, claimant, lease)
    if claimed is None:
        log.debug("%s#%s: dropped: stale, a duplicate, paused, taken, or too new", delivery.case, delivery.seq)
    return claimed


def work(engine: Engine, claimed: Claim) -> Decision:
    """Call the step, or say why it can't be called."""
    workflow = engine.registry.get(claimed.workflow)
    step = workflow.find(claimed.step)
    if claimed.state is None:
        return hold("damaged checkpoint", describe(claimed.damage or BadState("no state")))
    if step is None:
        return _unknown_step(engine, claimed, list(workflow.steps))
    try:
        state = states.load(workflow.state, claimed.state)
    except BadState as error:
        return hold("the stored state doesn't fit the model", describe(error))
    view = View(workflow=workflow, step=step, before=claimed.state, failures=claimed.failures, elapsed=claimed.elapsed)
    return exhausted(view) or decide(view, call_step(step, state, claimed))


def settle(engine: Engine, claimed: Claim, decision: Decision, began: float) -> Committed | None:
    """Commit, through a restart of the database if need be. None: the lease was lost, and the result is kept as late.

    A late worker whose case is still queued at its seq (the claim was lost in a crash of the database, or somebody
    took this worker for dead) claims it again under its own lease and commits, so the call isn't made twice.
    """
    version = engine.registry.versions[claimed.workflow]
    decision, stored = _weighed(engine, claimed, decision, renew=version != claimed.schema_version)
    write = _patient(COMMIT_PATIENCE)
    for _ in range(2):
        took = time.monotonic() - began
        committed = write(commit, engine.db, claimed, decision, stored, version=version, took=took)
        if committed is not None:
            _log(claimed, decision)
            return committed
        if write(claim, engine.db, claimed.delivery, claimed.claimant, claimed.lease) is None:
            break
    log.warning("%s: late: the lease was lost, the result is kept in its history", _name(claimed))
    write(record_late, engine.db, claimed, decision)
    return None


def _weighed(engine: Engine, claimed: Claim, decision: Decision, *, renew: bool) -> tuple[Decision, Link | None]:
    try:
        return decision, weigh(claimed, decision, max_state_bytes=engine.settings.max_state_bytes, snapshot=renew)
    except StateTooLarge as error:
        return hold("bad result", describe(error)), None


def _unknown_step(engine: Engine, claimed: Claim, known: list[str]) -> Decision:
    error = {
        "type": "UnknownStep",
        "message": f"this code has no step {claimed.step!r}; {claimed.workflow!r} has {', '.join(known)}",
    }
    if claimed.elapsed > engine.settings.unknown_step_grace_seconds:
        return hold("unknown step", error)
    return Decision(move="defer", status=Status.SLEEPING, delay=DEFER_SECONDS, error=error)


def _release_dead(engine: Engine, delivery: Delivery) -> bool:
    """Recover the case if the process that holds its lease was one of this host and is gone."""
    running = recovery.who_runs(engine.db, delivery)
    if running is None or running.host_id != engine.host_id or process.is_alive(running.executor):
        return False
    recovery.recover_leases(
        engine.db, [running], engine.limits, charge="crashes", outcome="crashed", message="its process died"
    )
    return True


def _patient(seconds: float) -> Retrying:
    """Try again while the database can't be reached."""
    return Retrying(
        retry=retry_if_exception_type(DatabaseUnavailable),
        wait=wait_exponential(multiplier=0.05, max=1.0),
        stop=stop_after_delay(seconds),
        reraise=True,
    )


def _log(claimed: Claim, decision: Decision) -> None:
    target = f" -> {decision.target.step}" if decision.target else ""
    why = f": {decision.error.get('message')}" if decision.error else ""
    level = logging.WARNING if decision.move in ("hold", "fail", "back_off", "defer") else logging.INFO
    log.log(level, "%s: %s%s%s", _name(claimed), decision.move, target, why)


def _name(claimed: Claim) -> str:
    seq, attempt = claimed.delivery.seq, claimed.attempt
    return f"{claimed.workflow}/{claimed.thread_id} {claimed.step}#{seq} attempt {attempt}"
