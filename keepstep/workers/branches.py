"""What follows a commit where branches are concerned: begin them, or let the parent go on. The sweep repeats it."""

from __future__ import annotations

import logging
from uuid import UUID

from keepstep.checkpoint import branches, joins
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.ring import Ring
from keepstep.steps.decide import Decision
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.steps.moves import TERMINAL, Status
from keepstep.workers.engine import Engine
from keepstep.workers.failpoints import reach
from keepstep.workers.patience import CLAIM, patient

log = logging.getLogger("keepstep.step")


def concerned(claimed: Claim, decision: Decision) -> bool:
    """Whether this commit has fanned out, or has ended a branch."""
    return decision.fan is not None or (claimed.parent is not None and decision.status in TERMINAL)


def follow(engine: Engine, claimed: Claim, decision: Decision) -> None:
    """After the commit: make the branches' cases, and tell workers; or, of a branch that has ended, look at its parent.

    What isn't done, because the database can't be reached, the sweep does.
    """
    try:
        if decision.fan is not None:
            patient(CLAIM)(look, engine, claimed.delivery.case)
        elif claimed.parent is not None:
            failed = decision.status != Status.COMPLETED
            if patient(CLAIM)(joins.worth_a_look, engine.db, claimed.parent, failed=failed):
                patient(CLAIM)(look, engine, claimed.parent.case, wait=failed)
    except DatabaseUnavailable as error:
        log.warning("case %s: its branches, or its parent, are left to the sweep: %s", claimed.delivery.case, error)
    except Exception:  # the step itself is done, and must not be taken for failed
        log.exception("case %s: an error; the sweep looks at its branches, or its parent", claimed.delivery.case)


def look(engine: Engine, case: UUID, *, postpone: bool = False, wait: bool = True) -> None:
    """Look at a case that waits for branches: make what there is room for, and join. postpone, wait: see `joins`."""
    limit = engine.settings.max_state_bytes
    joins.settle(engine.db, case, _telling(engine), engine.registry, max_bytes=limit, postpone=postpone, wait=wait)


def look_above(engine: Engine, case: UUID) -> None:
    """The case may just have ended, by a signal or a deadline: if so, and it is a branch, look at its parent."""
    limit = engine.settings.max_state_bytes
    joins.ended(engine.db, case, _telling(engine), engine.registry, max_bytes=limit)


def sweep(engine: Engine, *, undone: bool = False) -> None:
    """Look at the cases that are due; undone: also at those over which somebody may have died. Cancel what was left."""
    rows = engine.limits.rows
    joins.put_off_idle(engine.db, rows)
    for case in joins.due(engine.db, rows):
        _one_case(engine, case)
    for case in joins.undone(engine.db, rows) if undone else ():
        _one_case(engine, case)
    for case in branches.left(engine.db, rows):
        branches.clear(engine.db, case)


def _one_case(engine: Engine, case: UUID) -> None:
    """One case that can't be moved must not keep the others."""
    try:
        look(engine, case, postpone=True)
    except DatabaseUnavailable:
        raise
    except Exception:
        log.exception("case %s: its branches can't be looked at; put off", case)
        joins.put_off(engine.db, case)


def _telling(engine: Engine) -> joins.Told:
    def tell(case: UUID, seq: int, rings: list[Ring], joined: bool) -> None:
        reach("joined" if joined else "born", case, seq)
        engine.bell.ring(rings)

    return tell
