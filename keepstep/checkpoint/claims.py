"""Claim: take the lease of a case's next step, and load what the step needs, in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import state_of
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.ring import Delivery, Parent, Ring, parent_of, rings
from keepstep.checkpoint.sql import batch, hot
from keepstep.steps.errors import CheckpointDamaged
from keepstep.steps.state import JSON
from keepstep.steps.value import value


@value
class Claimant:
    """Who claims. owner: its node. executor: its process, "pid:start". known: schema versions by workflow, as JSON."""

    owner: UUID
    executor: str
    known: str


@value
class Claim:
    """A leased attempt.

    state: None when `damage` says why it can't be loaded. text: its JSON, if it is known. elapsed: seconds at this
    step. doubt: the lease of an attempt whose call is in doubt, and to be verified by this one. detail: what the step's
    last heartbeat said. is_pinned: all steps of the case run on its queue. parked: the digests of the state's
    large values that are stored. snapshot_seq: where its chain begins. parent: what the case is a branch of.
    """

    delivery: Delivery
    lease: UUID
    claimant: Claimant
    workflow: str
    thread_id: str
    run: UUID
    step: str
    queue: str
    is_pinned: bool
    timeout: float
    in_doubt: str
    attempt: int
    failures: int
    deferrals: int
    verifications: int
    doubt: UUID | None
    detail: Any
    schema_version: int
    weight: int
    deadline: datetime
    elapsed: float
    state: JSON | None
    damage: CheckpointDamaged | None
    text: str | None = None
    parked: frozenset[str] = frozenset()
    snapshot_seq: int = 0
    parent: Parent | None = None


def claim(db: Database, delivery: Delivery, claimant: Claimant, lease: UUID) -> Claim | None:
    """Take the lease. None: stale, a duplicate, paused, taken, or too new for this worker; nothing was changed.

    Repeating it with the same lease is safe: a claim whose reply was lost recognises itself.
    """
    row = db.one(
        hot.CLAIM,
        {
            "id": delivery.case,
            "seq": delivery.seq,
            "lease": lease,
            "owner": claimant.owner,
            "executor": claimant.executor,
            "known": claimant.known,
        },
    )
    return None if row is None else _claim(db, row, delivery, claimant, lease)


def claim_many(db: Database, deliveries: Sequence[Delivery], claimant: Claimant, leases: Sequence[UUID]) -> list[Claim]:
    """Take the leases of those that may run in company, in one statement; the others, which may be alone, are left.

    leases: one for each delivery. A case may be named once only. Repeating it with the same leases is safe.
    """
    params = {
        "id": codec.uuids(delivery.case for delivery in deliveries),
        "seq": [delivery.seq for delivery in deliveries],
        "lease": codec.uuids(leases),
        "owner": claimant.owner,
        "executor": claimant.executor,
        "known": claimant.known,
    }
    by_case = {d.case: (d, lease) for d, lease in zip(deliveries, leases, strict=True)}
    rows = {row.id: row for row in db.all(batch.CLAIM_MANY, params)}
    return [_claim(db, rows[case], d, claimant, lease) for case, (d, lease) in by_case.items() if case in rows]


def give_back(db: Database, claims: Sequence[Claim]) -> list[Ring]:
    """Undo claims whose steps have not begun, where they still hold; the messages for others to claim them by."""
    params = {"ids": [claim.delivery.case for claim in claims], "leases": [claim.lease for claim in claims]}
    return rings(row for row in db.all(batch.GIVE_BACK, params) if not row.paused)


def claim_again(db: Database, late: Claim) -> bool:
    """Take the late attempt's lease again. False: somebody else claimed, moved, ended or restarted the case since.

    A case that is held, or waits to be verified, because of this very attempt is its own again.
    """
    params = {
        "id": late.delivery.case,
        "seq": late.delivery.seq,
        "run": late.run,
        "lease": late.lease,
        "owner": late.claimant.owner,
        "executor": late.claimant.executor,
    }
    return db.run(hot.CLAIM_AGAIN, params) == 1


def tighten(db: Database, claim: Claim, in_doubt: str) -> bool:
    """Write the policy that the code at hand has for this step, before its call. False: the lease is gone."""
    params = {"id": claim.delivery.case, "lease": claim.lease, "in_doubt": in_doubt}
    return db.run(hot.TIGHTEN, params) == 1


def still_held(db: Database, claim: Claim) -> bool:
    """Whether the attempt holds its lease. False: cancelled, rewound, or taken away; its result would be late."""
    return db.one(hot.LEASE_HELD, {"id": claim.delivery.case, "lease": claim.lease}) is not None


def _claim(db: Database, row: Row, delivery: Delivery, claimant: Claimant, lease: UUID) -> Claim:
    parked: set[str] = set()
    state, damage = _load(db, delivery, row.chain, parked)
    return Claim(
        delivery=delivery,
        lease=lease,
        claimant=claimant,
        workflow=row.workflow,
        thread_id=row.thread_id,
        run=row.run,
        step=row.step,
        queue=row.queue,
        is_pinned=row.pinned_queue is not None,
        timeout=row.timeout,
        in_doubt=row.in_doubt,
        attempt=row.attempt,
        failures=row.failures,
        deferrals=row.deferrals,
        verifications=row.verifications,
        doubt=row.doubt,
        detail=None if row.detail is None else codec.decode(row.detail),
        schema_version=row.schema_version,
        weight=row.weight,
        deadline=row.deadline,
        elapsed=row.elapsed,
        state=state,
        damage=damage,
        parked=frozenset(parked),
        snapshot_seq=row.snapshot_seq,
        parent=parent_of(row),
    )


def _load(
    db: Database, delivery: Delivery, chain: str | None, parked: set[str]
) -> tuple[JSON | None, CheckpointDamaged | None]:
    try:
        return state_of(db.all, delivery.case, chain, delivery.seq, parked), None
    except CheckpointDamaged as error:
        return None, error
    except ValueError as error:
        return None, CheckpointDamaged(f"the stored JSON can't be read: {error}")
