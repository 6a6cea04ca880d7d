"""The join: a case goes on once all of its branches have ended, or fails with the first that fails.

Whoever comes by looks: a child after its own end, the worker that fanned out, the sweep. The look locks the waiting
case, and decides from what is there then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import branches, codec
from keepstep.checkpoint.blobs import keep
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.gathered import error_of, taken
from keepstep.checkpoint.mask import Mask
from keepstep.checkpoint.parked import LARGE
from keepstep.checkpoint.payloads import UNCHECKED, Payloads
from keepstep.checkpoint.ring import Parent, Ring, parent_of
from keepstep.checkpoint.sql import branches as sql
from keepstep.checkpoint.sql import reads
from keepstep.checkpoint.targets import decode_target
from keepstep.checkpoint.waits import columns, lock_head, ring_for
from keepstep.steps.decide import describe, storable
from keepstep.steps.errors import BadState, CheckpointDamaged
from keepstep.steps.results import UNFIT

Told = Callable[[UUID, int, list[Ring], bool], None]
"""(parent, seq of its fan-out, messages to send, whether it was joined): called after each commit."""


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a look did. more: there is more to do at once. open: it goes on waiting, and whoever came meanwhile left it.

    joined: the case goes on, or has ended. seq: of the fan-out. above: what the case is itself a branch of, if it has
    ended; failed: not as completed.
    """

    rings: list[Ring] = field(default_factory=list)
    more: bool = False
    open: bool = False
    joined: bool = False
    seq: int = 0
    above: Parent | None = None
    failed: bool = False


def settle(
    db: Database,
    case: UUID,
    tell: Told,
    code: Payloads = UNCHECKED,
    *,
    max_bytes: int | None = None,
    postpone: bool = False,
    wait: bool = True,
) -> None:
    """Look at a case that waits for branches: make what there is room for, join if all have ended, and so on upwards.

    postpone: the sweep comes by, and will again: if somebody else has the case in hand, leave it to them; if it goes on
    waiting, look later than now. wait: as of `look`.
    """
    while True:
        looked = look(db, case, code, max_bytes=max_bytes, postpone=postpone, wait=wait)
        if looked.rings or looked.joined:
            tell(case, looked.seq, looked.rings, looked.joined)
        if looked.failed:
            branches.clear(db, case)
        if looked.more or (looked.open and worth_a_look(db, Parent(case=case, seq=looked.seq), failed=False)):
            continue
        if looked.above is None or not worth_a_look(db, looked.above, failed=looked.failed):
            return
        case, wait = looked.above.case, looked.failed


def ended(db: Database, case: UUID, tell: Told, code: Payloads = UNCHECKED, *, max_bytes: int | None = None) -> None:
    """A case may have ended, by other means than a worker's commit: if so, and it is a branch, look at its parent."""
    row = db.one(reads.ENDED_BRANCH, {"id": case})
    above = None if row is None else parent_of(row)
    if row is not None and above is not None and worth_a_look(db, above, failed=row.status != "completed"):
        settle(db, above.case, tell, code, max_bytes=max_bytes)


def worth_a_look(db: Database, parent: Parent, *, failed: bool) -> bool:
    """Whether the end of a child lets its parent do anything. Asked after the child's own commit, without a lock."""
    params = {"parent": parent.case, "parent_seq": parent.seq, "failed": failed}
    return db.one(sql.WORTH_A_LOOK, params) is not None


def put_off_idle(db: Database, limit: int) -> None:
    """Look later at cases that are due, and for whose branches there is nothing to do; so many with each statement."""
    while db.run(sql.LOOK_LATER_IDLE, {"limit": limit}) == limit:
        pass


def due(db: Database, limit: int) -> list[UUID]:
    """Cases that wait for branches, and are to be looked at: there is something to do."""
    return [row.id for row in db.all(sql.DUE, {"limit": limit})]


def undone(db: Database, limit: int) -> list[UUID]:
    """Cases for whose branches there is something to do: if somebody has died, nobody may be on the way."""
    return [row.id for row in db.all(sql.UNDONE, {"limit": limit})]


def put_off(db: Database, case: UUID) -> None:
    """Look at a case later that can't be moved."""
    db.run(sql.PUT_OFF, {"id": case})


def look(
    db: Database,
    case: UUID,
    code: Payloads = UNCHECKED,
    *,
    max_bytes: int | None = None,
    postpone: bool = False,
    wait: bool = True,
) -> Looked:
    """Lock the case, and in a second statement look at what it waits for; make, join, or fail.

    wait: for others who look at this case just now. Otherwise they are left to it: they look again afterwards.
    """
    with db.transaction() as connection:
        if wait or postpone:
            head = lock_head(connection, case, patient=not postpone)
        else:
            head = next(iter(db.within(connection, sql.LOCK_TO_LOOK, {"id": case, "key": case.int >> 65})), None)
        if head is None or head.status != "waiting":
            return Looked()
        at = {"id": case, "seq": head.seq}
        limits = {"large": LARGE, "most": 0 if head.paused else branches.BATCH}
        fan = next(iter(db.within(connection, sql.FAN, at | limits)), None)
        if fan is None:
            return Looked()
        if fan.bad is not None:
            return _fail(connection, head, fan)
        if fan.made == fan.total and fan.alive == 0:
            return _join(connection, head, fan, code, max_bytes)
        made, more = branches.make(db, connection, head, fan)
        if postpone:
            connection.execute(sql.LOOK_LATER, at)
        return Looked(rings=made, more=more, open=not head.paused, seq=fan.seq)


def _fail(connection: sa.Connection, head: Row, fan: Row) -> Looked:
    at = {"id": head.id, "seq": head.seq}
    branch = connection.execute(sql.ONE, at | {"number": fan.bad}).one()
    error = error_of(branch)
    known = f"branch {branch.thread_id or error['thread_id']} {error['status']}"
    told = {
        **{str(name): error[name] for name in ("traceback", "path") if name in error},
        "type": error["type"],
        "message": storable(f"{known}: {error['message']}"),
        "branch": {"workflow": error["workflow"], "thread_id": error["thread_id"]},
    }
    connection.execute(sql.JOIN_FAIL, at | {"fate": "failed", "error": codec.encode(told)})
    return Looked(joined=True, seq=fan.seq, above=parent_of(head), failed=True)


def _join(connection: sa.Connection, head: Row, fan: Row, code: Payloads, max_bytes: int | None) -> Looked:
    at = {"id": head.id, "seq": head.seq}
    try:
        results = taken(connection, head, fan, code, max_bytes)
    except (BadState, CheckpointDamaged) as error:
        why = Mask.of(connection, head.id).json({**describe(error), "why": UNFIT})
        connection.execute(sql.UNFIT, at | {"fate": "unfit", "error": codec.encode(why)})
        return Looked(joined=True, seq=fan.seq)
    if results is None:
        connection.execute(sql.LEAVE_TO_NEWER, at)
        return Looked()
    stored = results.stored
    keep(connection.execute, head.id, stored.blobs)
    params = at | {
        "name": head.step,
        "fate": "joined",
        "payload": stored.payload,
        "is_snapshot": stored.is_snapshot,
        "schema_version": results.version,
    }
    target = decode_target(fan.then_target)
    if target is None:
        connection.execute(sql.JOIN_LAST, params | {"status": "completed", "target": None})
        return Looked(joined=True, seq=fan.seq, above=parent_of(head))
    connection.execute(sql.JOIN, params | columns(target) | {"status": "queued", "weight": stored.weight})
    ring = ring_for(head, head.seq, target)
    return Looked(rings=[ring] if ring else [], joined=True, seq=fan.seq)
