"""The hot path: what happens when a message arrives. Two statements, one durable flush, one publish."""

from __future__ import annotations

import logging
import time
from uuid import uuid4

from keepstep.checkpoint import recovery, waits
from keepstep.checkpoint.claims import Claim, claim
from keepstep.checkpoint.ring import Delivery
from keepstep.steps import state as states
from keepstep.steps.decide import Decision, View, decide, describe, exhausted, hold
from keepstep.steps.errors import BadState
from keepstep.steps.moves import Status
from keepstep.workers import process
from keepstep.workers.call_step import Interrupted, call_step
from keepstep.workers.engine import Engine
from keepstep.workers.failpoints import reach
from keepstep.workers.interrupt import uninterrupted
from keepstep.workers.patience import CLAIM, patient
from keepstep.workers.settle import name, settle

DEFER_SECONDS = 5.0
"""How long a case waits before another worker is asked whether it knows the step."""

log = logging.getLogger("keepstep.step")


def execute(engine: Engine, delivery: Delivery, *, redelivered: bool = False) -> None:
    """Run the step that a message names, if it is still to be run: claim, call, commit, publish."""
    with uninterrupted():  # a timeout or a SIGTERM interrupts the call, and nothing else
        claimed = take(engine, delivery, redelivered=redelivered)  # statement 1
        if claimed is None:
            return  # stale, a duplicate, paused, taken, too new: nothing to do
        began = time.monotonic()
        reach("claimed", claimed.step)
        try:
            decision = work(engine, claimed)  # user code; nothing is held
        except Interrupted as ended:
            give_back(engine, claimed)
            raise ended.__cause__ or ended from None
        reach("called", claimed.step)
        committed = settle(engine, claimed, decision, began)  # statement 2, fenced
        if committed is None:
            return
        reach("committed", claimed.step)
        if committed.ring is not None:
            engine.bell.ring([committed.ring])  # only after the commit
        elif decision.waits and (ring := waits.deliver(engine.db, delivery.case, engine.registry.fits)):
            engine.bell.ring([ring])  # the signal was there before the wait
        reach("published", claimed.step)


def take(engine: Engine, delivery: Delivery, *, redelivered: bool) -> Claim | None:
    """Claim. A redelivery that finds its case with a dead process of this host recovers it first, then claims again."""
    lease, claimant = uuid4(), engine.claimant
    claimed = patient(CLAIM)(claim, engine.db, delivery, claimant, lease)
    if claimed is None and redelivered and _release_dead(engine, delivery):
        claimed = patient(CLAIM)(claim, engine.db, delivery, claimant, lease)
    if claimed is None:
        log.debug("%s#%s: dropped: stale, a duplicate, paused, taken, or too new", delivery.case, delivery.seq)
    return claimed


def work(engine: Engine, claimed: Claim) -> Decision:
    """Call the step, or say why it can't be called. Raises Interrupted when this worker is told to end meanwhile."""
    try:
        return _work(engine, claimed)
    except Interrupted:
        raise
    except Exception as error:
        log.exception("%s: an error of the engine; the case is held", name(claimed))
        return hold("engine error", describe(error))


def _work(engine: Engine, claimed: Claim) -> Decision:
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
    return exhausted(view) or decide(view, call_step(step, state, claimed, engine.db))


def give_back(engine: Engine, claimed: Claim) -> None:
    """The worker ends while the step runs: let another one go on at once; under "hold", a person is asked."""
    log.warning("%s: its worker is told to end; the case goes back", name(claimed))
    given = recovery.release_lease(engine.db, claimed.delivery.case, claimed.lease, engine.limits)
    engine.bell.ring(given.rings)


def _unknown_step(engine: Engine, claimed: Claim, known: list[str]) -> Decision:
    error = {
        "type": "UnknownStep",
        "message": f"this code has no step {claimed.step!r}; {claimed.workflow!r} has {', '.join(known)}",
    }
    if claimed.deferrals * DEFER_SECONDS >= engine.settings.unknown_step_grace_seconds:
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
