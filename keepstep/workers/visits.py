"""How often a case has come to a step: a loop that finds no end is held."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from uuid import UUID

from keepstep.checkpoint import visits as counted
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.steps.decide import Decision, hold
from keepstep.steps.step import Step
from keepstep.workers.patience import CLAIM, patient

REMEMBERED = 1000
"""Cases and steps of which a process remembers how far it has counted: each look counts only what came since, and is
not made before as many checkpoints have come as are missing."""


@dataclass(frozen=True)
class _Counted:
    up_to: int
    visits: int


_counted: OrderedDict[tuple[UUID, UUID, str], _Counted] = OrderedDict()


def endless(db: Database, claimed: Claim, step: Step) -> Decision | None:
    """Hold a case that comes to the step too often; None if it may go on. Asked before the step is called.

    What was before a rewind or a restart isn't counted. An operator who retries the held case lets it go round once
    more.
    """
    most, seq = step.max_visits, claimed.delivery.seq
    if most is None:
        return None
    key = (claimed.delivery.case, claimed.run, step.name)
    before = _counted.get(key, _Counted(0, 0))
    if before.up_to > seq:
        before = _Counted(0, 0)
    if before.visits + seq - before.up_to < most:  # a visit leaves a checkpoint, so there can't have been so many
        return None
    look = patient(CLAIM)(
        counted.visits, db, claimed.delivery.case, [step.name, *step.aliases], seq, after=before.up_to
    )
    visits = look.visits + (before.visits if look.since == before.up_to else 0)
    _counted[key] = _Counted(seq, visits)
    _counted.move_to_end(key)
    while len(_counted) > REMEMBERED:
        _counted.popitem(last=False)
    if visits < most or look.let_on:
        return None
    message = f"it came to {step.name!r} for the {visits + 1}th time; the most is {most}"
    return hold("too many visits", {"type": "TooManyVisits", "message": message})
