"""Why a claim was refused: what the case says now, a moment later. For counting only."""

from __future__ import annotations

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Delivery
from keepstep.checkpoint.sql import nodes as sql


def why_refused(db: Database, delivery: Delivery, known: str) -> str:
    """One word.

    ended: it has no head any more. stale: it has gone on. running: another message was quicker. paused. too_new: this
    code can't load its state (known: schema versions by workflow, as JSON). elsewhere: it sleeps, waits, or is held.
    """
    row = db.one(sql.WHY_REFUSED, {"id": delivery.case, "seq": delivery.seq, "known": known})
    return "ended" if row is None else str(row.reason)
