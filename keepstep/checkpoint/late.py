"""Late results: what came after its lease was lost, kept for people."""

from __future__ import annotations

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import fetching
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.delta import Operation
from keepstep.checkpoint.logs import diff, found_in
from keepstep.checkpoint.sql import hot
from keepstep.steps.decide import Decision
from keepstep.steps.errors import LogDamaged
from keepstep.steps.state import JSON

LATE_BYTES = 256 * 1024
"""The largest change of a late result that is kept."""


def record_late(db: Database, claim: Claim, decision: Decision) -> None:
    """Keep what a result changed that came after its lease was lost: an operator may need the receipt in it."""
    error = {"move": decision.move, "target": decision.target and decision.target.step, **decision.error}
    if claim.state is not None and decision.state is not None:
        error["change"] = _change(db, claim, claim.state, decision)
    db.run(
        hot.RECORD_LATE,
        {
            "id": claim.delivery.case,
            "seq": claim.delivery.seq,
            "ran": claim.step,
            "attempt": claim.attempt,
            "lease": claim.lease,
            "owner": claim.claimant.owner,
            "error": codec.encode(error),
            "cost": cost_of(decision),
        },
    )


def cost_of(decision: Decision) -> str | None:
    """What the attempt spent, as JSON."""
    return codec.encode(dict(decision.cost)) if decision.cost else None


def _change(db: Database, claim: Claim, before: JSON, decision: Decision) -> list[Operation] | str:
    """What it changed. Of a case that is gone, no log can be read."""
    try:
        change = diff(before, decision.state or {}, found_in(decision.blobs, fetching(db.all, claim.delivery.case)))
    except LogDamaged as error:
        return str(error)
    return change if len(codec.encode(change)) <= LATE_BYTES else "too large to be kept"
