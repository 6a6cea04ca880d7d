"""The hot path: what happens when a message arrives. Two statements, one durable flush, one publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID, uuid4

from pydantic import BaseModel

from keepstep.checkpoint import nodes, recovery, waits
from keepstep.checkpoint.blobs import fetching
from keepstep.checkpoint.claims import Claim, claim, tighten
from keepstep.checkpoint.mask import mask
from keepstep.checkpoint.ring import Delivery, Ring
from keepstep.steps import upcasts
from keepstep.steps.call import Call
from keepstep.steps.decide import (
    IN_DOUBT,
    Decision,
    View,
    decide,
    describe,
    exhausted,
    hold,
    passed_over,
    unreadable,
)
from keepstep.steps.doubt import verified
from keepstep.steps.errors import BadState
from keepstep.steps.moves import Status
from keepstep.steps.secret import Cover
from keepstep.workers import branches, process
from keepstep.workers.batch import Batch, claim_batch, watched
from keepstep.workers.call_step import Interrupted, call_step
from keepstep.workers.engine import Engine
from keepstep.workers.failpoints import reach
from keepstep.workers.inline import ALONE, Inline
from keepstep.workers.interrupt import uninterrupted
from keepstep.workers.make_call import make_call
from keepstep.workers.patience import CLAIM, COMMIT, patient
from keepstep.workers.settle import name, settle
from keepstep.workers.transaction import Transaction, TransactionLost, lend
from keepstep.workers.visits import endless

DEFER_SECONDS = 5.0
"""How long a case waits before another worker is asked whether it knows the step."""

log = logging.getLogger("keepstep.step")


@dataclass(kw_only=True)
class Ran:
    """A step that runs. at: when it began, in seconds since 1970. worked, took: seconds without and with its commit."""

    claim: Claim
    at: float = field(default_factory=time.time)
    worked: float = 0.0
    took: float = 0.0


def execute(engine: Engine, delivery: Delivery, *, redelivered: bool = False, limit: float | None = None) -> list[Ran]:
    """Run the step that a message names, if it is still to be run. The steps that ran.

    There is more than one where a workflow goes on inline, as long as its budget lasts. limit: the seconds after which
    this process is interrupted, if the message says so.
    """
    with uninterrupted() as stop:  # a timeout or a SIGTERM interrupts the call, and nothing else
        reach("claiming", delivery.case, delivery.seq)
        # statement 1; None: stale, a duplicate, paused, taken, too new: nothing to do
        claimed = take(engine, delivery, redelivered=redelivered)
        ran: list[Ran] = []
        budget = Inline(engine, claimed, stop, limit)
        while claimed is not None:
            this = Ran(claim=claimed)
            claimed = perform(engine, this, budget)
            this.took = time.time() - this.at
            ran.append(this)
        return ran


def execute_batch(engine: Engine, deliveries: Sequence[Delivery], limit: float | None = None) -> list[list[Ran] | None]:
    """Run quick steps of several cases together. For each delivery the steps that ran; None: it may only run alone.

    What has not begun when a step turns out slow, or this process is told to end, goes back, and none of it ran. As
    long as their budgets last, workflows that go on inline do so together. limit: as for `execute`, of all.
    """
    with uninterrupted() as stop:
        claims = claim_batch(engine, deliveries)
        budgets = {claimed.delivery.case: Inline(engine, claimed, stop, limit) for claimed in claims}
        ran: dict[Delivery, list[Ran]] = {claimed.delivery: [] for claimed in claims}
        of_case = {delivery.case: steps for delivery, steps in ran.items()}
        while claims:
            batch = Batch(engine, claims, lambda claimed, done: budgets[claimed.delivery.case].joins_on(claimed, done))
            with watched(batch):
                while not stop() and (claimed := batch.next()) is not None:
                    this = Ran(claim=claimed)
                    of_case[claimed.delivery.case].append(this)
                    perform(engine, this, ALONE, batch)
                    this.took = time.time() - this.at
            claims = batch.next_claims
        known = frozenset(ran)  # two messages may name the same step: the first one tells of it
        return [ran.pop(delivery, []) if delivery in known else None for delivery in deliveries]


def perform(engine: Engine, ran: Ran, inline: Inline, batch: Batch | None = None) -> Claim | None:
    """Call the step, commit, publish. The next step's claim, if this worker goes on with it at once.

    batch: which keeps what can be committed and published with others.
    """
    claimed, began = ran.claim, time.monotonic()
    at = (claimed.delivery.case, claimed.delivery.seq)
    reach("claimed", *at)
    try:
        with lend(engine, claimed) as transaction:  # a transactional step's own; else None, and nothing is held
            decision = work(engine, claimed, transaction)  # user code
            reach("called", *at)
            ran.worked = time.monotonic() - began
            if batch is not None and transaction is None and batch.keep(claimed, decision, ran.worked):
                return None
            onward = uuid4() if inline.goes_on(claimed, decision, transaction) else None
            committed = settle(engine, claimed, decision, began, transaction, onward=onward)  # statement 2, fenced
    except Interrupted as ended:
        give_back(engine, claimed, begun=ended.begun)
        if ended.__cause__ is not None:
            raise ended.__cause__ from None
        return None
    except TransactionLost as lost:
        error = {"type": "TransactionLost", "message": f"its transaction came to nothing: {lost}"}
        later = Decision(move="defer", status=Status.SLEEPING, delay=DEFER_SECONDS, error=error)
        settle(engine, claimed, later, began, None)
        return None
    if committed is None:
        return None
    reach("committed", *at)
    if committed.ring is not None:
        engine.bell.ring([committed.ring])  # only after the commit
    elif decision.waits and (ring := deliver(engine, claimed.delivery.case)):
        engine.bell.ring([ring])  # the signal was there before the wait
    elif branches.concerned(claimed, decision):
        branches.follow(engine, claimed, decision)
    reach("published", *at)
    return committed.next


def deliver(engine: Engine, case: UUID) -> Ring | None:
    """Match the case's waits with the signals that were there before; the message to send."""
    limit = engine.settings.max_state_bytes
    ring: Ring | None = patient(CLAIM)(waits.deliver, engine.db, case, engine.registry, max_bytes=limit)
    if ring is None:
        branches.look_above(engine, case)  # the wait may have been a branch's last step
    return ring


def take(engine: Engine, delivery: Delivery, *, redelivered: bool) -> Claim | None:
    """Claim. A redelivery that finds its case with a dead process of this host recovers it first, then claims again."""
    lease, claimant = uuid4(), engine.claimant
    claimed: Claim | None = patient(CLAIM)(claim, engine.db, delivery, claimant, lease)
    if claimed is None and redelivered and _release_dead(engine, delivery):
        claimed = patient(CLAIM)(claim, engine.db, delivery, claimant, lease)
    if claimed is None:
        log.debug("%s#%s: dropped: stale, a duplicate, paused, taken, or too new", delivery.case, delivery.seq)
        engine.tallies.refused(engine.db, delivery, claimant.known)
    return claimed


def work(engine: Engine, claimed: Claim, transaction: Transaction | None) -> Decision:
    """Call the step, or say why it can't be called. Raises Interrupted when this worker is told to end meanwhile."""
    try:
        return _work(engine, claimed, transaction)
    except Interrupted:
        raise
    except Exception as error:
        log.exception("%s: an error of the engine; the case is held", name(claimed))
        return hold("engine error", describe(error))


def _work(engine: Engine, claimed: Claim, transaction: Transaction | None) -> Decision:
    workflow = engine.registry.get(claimed.workflow)
    step = workflow.find(claimed.step)
    if claimed.state is None:
        damage = describe(claimed.damage or BadState("no state"))
        damage["message"] += f" (stored as version {claimed.schema_version})"
        return hold("damaged checkpoint", mask(engine.db, claimed.delivery.case, workflow.secrets).json(damage))
    if step is None and claimed.step not in workflow.removed:
        return _unknown_step(engine, claimed, list(workflow.steps))
    fetch = partial(patient(COMMIT), fetching(engine.db.all, claimed.delivery.case))  # a connection for its moment only
    try:
        before, state, text = upcasts.load(
            workflow, claimed.state, claimed.schema_version, claimed.text, step=claimed.step, fetch=fetch
        )
    except BadState as error:
        hidden = mask(engine.db, claimed.delivery.case, workflow.secrets)  # an older version may have had other secrets
        unfit = unreadable(error) or hold("the stored state doesn't fit the model", describe(error))
        return replace(unfit, error=hidden.json(unfit.error))
    if step is None:
        return passed_over(workflow, claimed.step, state, in_doubt=claimed.doubt is not None, fetch=fetch)
    cover = (lambda: Cover.of(workflow.secrets, before, state)) if workflow.secrets else None
    view = View(
        workflow=workflow,
        step=step,
        before=before,
        before_text=text,
        failures=claimed.failures,
        elapsed=claimed.elapsed,
        verifications=claimed.verifications,
        settling=engine.settings.settling_seconds,
        fetch=fetch,
    )
    call = make_call(claimed, engine.db, max_bytes=engine.settings.max_state_bytes, cover=cover)
    if claimed.doubt is not None:
        decision = _verify(view, state, call, claimed)
    elif (spent := exhausted(view)) is not None:
        return spent
    elif (held := endless(engine.db, claimed, step)) is not None:
        return held
    else:
        changed = step.in_doubt not in ("retry", claimed.in_doubt)  # a deploy, since the case came here
        if changed and not patient(COMMIT)(tighten, engine.db, claimed, step.in_doubt):
            return hold("taken away before its call", {"type": "LeaseLost", "message": "nothing was called"})
        function = step.function if transaction is None else transaction.guard(step.function)
        decision = decide(view, call_step(function, state, call, claimed.timeout))
    safe = call.key_read or transaction is not None
    said = decision.error if cover is None else cover().json(decision.error)
    return replace(decision, cost=call.spent or None, key_read=safe, error=said)


def _verify(view: View, state: BaseModel, call: Call, claimed: Claim) -> Decision:
    """An attempt before this one is in doubt: look whether its call took effect, instead of making it again."""
    if view.step.verify is None:
        error = {"type": "NoVerify", "message": f"this code's step {view.step.name!r} has no verify any more"}
        return hold(IN_DOUBT, error)
    return verified(view, call_step(view.step.verify, state, call, claimed.timeout))


def give_back(engine: Engine, claimed: Claim, *, begun: bool) -> None:
    """The worker ends, and nobody is to blame: let another one go on at once, or as the policy says if it had begun."""
    log.warning("%s: its worker is told to end; the case goes back", name(claimed))
    case, lease = claimed.delivery.case, claimed.lease
    given = patient(COMMIT)(recovery.release_lease, engine.db, case, lease, engine.limits, begun=begun)
    engine.bell.ring(given.rings)


def _unknown_step(engine: Engine, claimed: Claim, known: list[str]) -> Decision:
    error = {
        "type": "UnknownStep",
        "message": f"this code has no step {claimed.step!r}; {claimed.workflow!r} has {', '.join(known)}",
    }
    waited = claimed.deferrals * DEFER_SECONDS >= engine.settings.unknown_step_grace_seconds
    if waited and not patient(CLAIM)(nodes.knows_step, engine.db, claimed.workflow, claimed.step):
        return hold("unknown step", error)
    return Decision(move="defer", status=Status.SLEEPING, delay=DEFER_SECONDS, error=error)


def _release_dead(engine: Engine, delivery: Delivery) -> bool:
    """Recover the case if the process that holds its lease was one of this host and is gone."""
    running = recovery.who_runs(engine.db, delivery)
    if running is None or running.host_id != engine.host_id or process.is_alive(running.executor):
        return False
    recovery.recover_leases(
        engine.db,
        [running],
        engine.limits,
        charge="crashes",
        outcome="crashed",
        message="its process died",
        certain=True,
    )
    return True
