"""Fold the past of cases that live for very long into a snapshot: `keep_checkpoints=` of a workflow.

The steps' commits write a snapshot at the latest after so many checkpoints (see `is_due`); this deletes what is older.
"""

from __future__ import annotations

from uuid import UUID

from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import fold as sql

CASES = 20
"""Cases that are folded at a time."""
ROWS = 1000
"""Checkpoints that one statement deletes."""


def is_due(claim: Claim, keep: int | None) -> bool:
    """Whether the next checkpoint is to be a snapshot, so that what is before it can go one day."""
    return keep is not None and claim.delivery.seq + 1 - claim.snapshot_seq >= keep


def fold(db: Database, workflow: str, keep: int, *, cases: int = CASES) -> int:
    """Delete what is older than the last snapshot behind which `keep` checkpoints are; how many checkpoints went.

    A case has between `keep` and about three times as many. Safe to run everywhere at once.
    """
    long = db.all(sql.LONG, {"workflow": workflow, "keep": keep, "limit": cases})
    return sum(_fold(db, row.id, keep) for row in long)


def _fold(db: Database, case: UUID, keep: int) -> int:
    row = db.one(sql.POINT, {"id": case, "keep": keep})
    if row is None:
        return 0
    gone, at = 0, {"id": case, "point": row.seq}
    while (some := db.run(sql.CHECKPOINTS, {**at, "limit": ROWS})) > 0:
        gone += some
    db.run(sql.REST, at)
    with db.transaction() as connection:
        if connection.execute(sql.LOCK_IDLE, {"id": case}).first() is not None:
            connection.execute(sql.UNNAMED_BLOBS, {"id": case})
    return gone
