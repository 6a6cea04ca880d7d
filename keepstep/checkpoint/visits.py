"""How often a case has come to a step."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.sql import reads


def visits(db: Database, case: UUID, steps: Sequence[str], seq: int, *, after: int) -> Row:
    """How often steps of these names have run up to checkpoint `seq`: since, visits, let_on; see `sql.reads.VISITS`."""
    return db.all(reads.VISITS, {"id": case, "steps": list(steps), "seq": seq, "after": after})[0]
