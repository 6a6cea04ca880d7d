"""The sweep's statements as functions: wake, ring again, recover. All are safe to run on every node at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.ring import Delivery, Ring, rings
from keepstep.checkpoint.sql import sweep

Charge = Literal["crashes", "node_deaths", "failures", ""]

BACKLOG_ROWS = 10
"""How many times as many rows as otherwise are put off at once: it is one update, and nothing is sent."""

OVERDUE_GRACE = 2.0
"""Seconds past its deadline that an attempt has to say so itself, before the sweep takes it away."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """rows: the most that one statement moves. max_crashes, max_node_deaths: from then on the case is held.

    settling: seconds before a call in doubt is verified.
    """

    rows: int
    max_crashes: int
    max_node_deaths: int
    settling: float = 5.0


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What a recovery did: the messages to send, and how many cases were held instead."""

    rings: list[Ring]
    held: int


@dataclass(frozen=True, kw_only=True)
class Running:
    """A running head. executor: the process that runs it, "pid:start", on the host `host_id`."""

    case: UUID
    lease: UUID
    owner: UUID
    executor: str
    host_id: str


def wake(db: Database, limits: Limits) -> list[Ring]:
    """Queue the cases whose timer or back-off is over."""
    return rings(db.all(sweep.WAKE, {"limit": limits.rows}))


def overdue_queues(db: Database, *, ahead: float) -> list[str]:
    """The queues of live nodes with cases that should have been claimed by now, or within `ahead` seconds."""
    return [row.queue for row in db.all(sweep.OVERDUE_QUEUES, {"ahead": ahead})]


def ring_again(
    db: Database, queues: Sequence[str], limits: Limits, *, ahead: float, beyond: float = -1e9
) -> list[Ring]:
    """Those cases of these queues that some live node can load. beyond: only those that are due after so long."""
    if not queues:
        return []
    return rings(
        db.all(sweep.RING_AGAIN, {"queues": list(queues), "ahead": ahead, "beyond": beyond, "limit": limits.rows})
    )


def ring_dropped(db: Database, queues: Sequence[str], limits: Limits, *, ahead: float) -> list[Ring]:
    """Cases of these empty queues that one living node can load, and another can't: that one dropped the message."""
    if not queues:
        return []
    return rings(db.all(sweep.RING_DROPPED, {"queues": list(queues), "ahead": ahead, "limit": limits.rows}))


def ring_lost(db: Database, oldest: Delivery, limits: Limits, *, ahead: float, seconds: float) -> list[Ring]:
    """Cases whose message is gone from a queue that isn't empty: they are older than its oldest message.

    ahead: look at those that are due within so many seconds. seconds: look at what is rung for again after so many.
    """
    params = {"id": oldest.case, "seq": oldest.seq, "ahead": ahead, "seconds": seconds, "limit": limits.rows}
    return rings(db.all(sweep.RING_LOST, params))


def put_off_backlog(db: Database, empty: Sequence[str], seconds: float, limits: Limits) -> int:
    """Look at unclaimed cases much later, but for those of the queues that are empty; how many."""
    params = {"empty": list(empty), "seconds": seconds, "limit": limits.rows * BACKLOG_ROWS}
    return db.run(sweep.PUT_OFF_BACKLOG, params)


def look_again(db: Database, limits: Limits) -> int:
    """Put off the running heads that were due and found in order."""
    return db.run(sweep.LOOK_AGAIN, {"limit": limits.rows})


def recover_nodes(db: Database, owners: Sequence[UUID], limits: Limits, *, certain: bool) -> Recovery:
    """Take away what dead nodes were running. The step is not to blame. certain: they are gone, not merely silent."""
    return _recover(
        db, sweep.RECOVER_NODES, limits, "node_deaths", "node_died", "its node died", certain, owners=list(owners)
    )


def release_node(db: Database, owner: UUID, limits: Limits) -> Recovery:
    """Give back what a node that ends in order was still running. Nobody is to blame."""
    return _recover(db, sweep.RECOVER_NODES, limits, "", "released", "its worker was stopped", True, owners=[owner])


def release_lease(db: Database, case: UUID, lease: UUID, limits: Limits, *, begun: bool) -> Recovery:
    """Give back one attempt whose process is told to end. Nobody is to blame. begun: its call may have been made."""
    which = {"ids": [case], "leases": [lease], "begun": begun}
    return _recover(db, sweep.RECOVER_LEASES, limits, "", "released", "its worker was stopped", True, **which)


def recover_executor(db: Database, owner: UUID, executor: str, limits: Limits, *, charged: bool = True) -> Recovery:
    """Take away what a dead process of this node was running. The step is the suspect, unless it isn't charged."""
    which = {"owner": owner, "executor": executor}
    if not charged:
        return _recover(db, sweep.RECOVER_EXECUTOR, limits, "", "released", "its worker was stopped", True, **which)
    return _recover(db, sweep.RECOVER_EXECUTOR, limits, "crashes", "crashed", "its process died", True, **which)


def recover_leases(
    db: Database,
    running: Sequence[Running],
    limits: Limits,
    *,
    charge: Charge,
    outcome: str,
    message: str,
    certain: bool,
) -> Recovery:
    """Take away these attempts, if they still hold their leases. certain: each has ended, it isn't merely silent."""
    if not running:
        return Recovery(rings=[], held=0)
    ids, leases = [r.case for r in running], [r.lease for r in running]
    return _recover(db, sweep.RECOVER_LEASES, limits, charge, outcome, message, certain, ids=ids, leases=leases)


def recover_overdue(db: Database, limits: Limits) -> Recovery:
    """Take away what is past its step's deadline."""
    message = "it took longer than the step's timeout and did not come back"
    return _recover(db, sweep.RECOVER_OVERDUE, limits, "failures", "timed_out", message, False, grace=OVERDUE_GRACE)


def recover_unowned(db: Database, limits: Limits) -> Recovery:
    """Take away what belongs to nodes that nobody knows any more."""
    return _recover(db, sweep.RECOVER_UNOWNED, limits, "node_deaths", "node_died", "its node is gone", False)


def running_here(db: Database, owner: UUID, limit: int) -> list[Running]:
    """What a node is running, as the database sees it."""
    rows = db.all(sweep.RUNNING_HERE, {"owner": owner, "limit": limit})
    return [Running(case=r.id, lease=r.lease, owner=owner, executor=r.executor, host_id="") for r in rows]


def who_runs(db: Database, delivery: Delivery) -> Running | None:
    """The attempt that holds the lease which a claim was refused for."""
    row = db.one(sweep.WHO_RUNS, {"id": delivery.case, "seq": delivery.seq})
    if row is None:
        return None
    return Running(case=row.id, lease=row.lease, owner=row.owner, executor=row.executor, host_id=row.host_id)


def overdue_waits(db: Database, limits: Limits) -> list[UUID]:
    """Cases whose wait has passed its deadline."""
    return [row.id for row in db.all(sweep.OVERDUE_WAITS, {"limit": limits.rows})]


def put_off(db: Database, case: UUID) -> None:
    """Look at a wait that can't be moved again in a minute."""
    db.run(sweep.PUT_OFF, {"id": case})


def undelivered(db: Database, limits: Limits) -> list[UUID]:
    """Waiting cases that have a signal which a crash kept from being delivered."""
    return [row.id for row in db.all(sweep.UNDELIVERED, {"limit": limits.rows})]


def _recover(
    db: Database,
    statement: sa.Executable,
    limits: Limits,
    charge: Charge,
    outcome: str,
    message: str,
    certain: bool,
    **which: Any,
) -> Recovery:
    rows: list[Row] = db.all(
        statement,
        {
            "charge": charge,
            "outcome": outcome,
            "message": message,
            "certain": certain,
            "begun": True,
            "settling": limits.settling,
            "limit": limits.rows,
            "max_crashes": limits.max_crashes,
            "max_node_deaths": limits.max_node_deaths,
            **which,
        },
    )
    ready = [row for row in rows if row.status == "queued" and not row.paused]
    return Recovery(rings=rings(ready), held=sum(row.status == "held" for row in rows))
