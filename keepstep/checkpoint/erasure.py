"""Legal erasure: every payload of a case goes, and a tombstone says when and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import retention as sql
from keepstep.checkpoint.steered import Order, check
from keepstep.steps.errors import CaseErased, NotErasable, UnknownCase
from keepstep.steps.keys import case_id


@dataclass(frozen=True, kw_only=True)
class Erased:
    """at: by the database's clock. children: that went with it. forks: thread ids that hold copies, and stay."""

    workflow: str
    thread_id: str
    at: datetime
    children: int
    forks: list[str]


def erase(db: Database, workflow: str, thread_id: str, order: Order) -> Erased:
    """Delete all that the database has of an ended case and its children.

    What is left: its id (from which nobody learns the thread id), its workflow, when, by whom, why. Raises UnknownCase,
    CaseErased, NotErasable (it lives, or a child of it does), BadAudit.
    """
    check(order)
    case = case_id(workflow, thread_id)
    with db.transaction() as connection:
        family = connection.execute(sql.LOCK_FAMILY, {"id": case}).all()
        if not family:
            raise unknown(db, workflow, thread_id)
        alive = [f"{row.workflow}/{row.thread_id}" for row in family if row.live]
        if alive:
            which = "it" if alive == [f"{workflow}/{thread_id}"] else ", ".join(alive[:3])
            raise NotErasable(workflow, thread_id, f"{which} hasn't ended. `keepstep cancel` first, then erase.")
        forks = [row.thread_id for row in connection.execute(sql.FORKS, {"id": case})]
        for row in family:
            connection.execute(sql.FORGET_SOURCE, {"thread_id": row.thread_id, "workflow": row.workflow})
        connection.execute(sql.REMOVE, {"ids": [row.id for row in family]})
        said = {"actor": order.actor, "reason": order.reason, "workflow": workflow}
        at = connection.execute(sql.BURY, {"id": case, "children": len(family) - 1, **said}).scalar_one()
    return Erased(workflow=workflow, thread_id=thread_id, at=at, children=len(family) - 1, forks=forks)


def unknown(db: Database, workflow: str, thread_id: str, case: UUID | None = None) -> UnknownCase:
    """Why there is no such case: it was erased, or it never was, or its retention is over."""
    row = db.one(sql.TOMBSTONE, {"id": case or case_id(workflow, thread_id)})
    return UnknownCase(workflow, thread_id) if row is None else CaseErased(workflow, thread_id, row.at, row.actor)
