"""All that `why` wants to know of a case, read."""

from __future__ import annotations

from collections.abc import Sequence

from keepstep.checkpoint import fan_reads, reads
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.why import Facts, Standing
from keepstep.checkpoint.why_branches import SHOWN


def facts(db: Database, case: Case, nodes: Sequence[NodeView]) -> Facts:
    """As it stands now. nodes: the live ones."""
    fan = next(iter(fan_reads.fans(db, case.id, open_only=True)), None) if case.status == "waiting" else None
    held = fan is not None and fan.counts.get("held")
    return Facts(
        case=case,
        standing=Standing.of(reads.standing(db, case.id)),
        waits=reads.open_waits(db, case.id),
        nodes=nodes,
        fan=fan,
        held=fan_reads.branches(db, case.id, status="held", limit=SHOWN) if held else (),
    )
