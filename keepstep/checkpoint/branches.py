"""Branches: cases made from a fan-out's list by a cursor, and the cancelling of those that their parent has left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import keep
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.parked import park
from keepstep.checkpoint.ring import Ring, rings
from keepstep.checkpoint.sql import branches as sql
from keepstep.steps.keys import branch_run, branch_thread_id, case_id

BATCH = 500
"""Cases that one transaction makes."""
CLEARED_AT_ONCE = 200
"""Cases that one transaction cancels."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """An item of the list. thread_id: that the step chose. large: its first state, if some of that is stored apart."""

    number: int
    kind: int
    name: str | None
    thread_id: str | None
    large: str | None


def make(db: Database, connection: sa.Connection, head: Row, fan: Row) -> tuple[list[Ring], bool]:
    """Make cases for the next of the list, as many as there is room for; the messages, and whether there is more room.

    The parent's head is locked, and it waits for this fan-out: so nobody else makes them, and nobody leaves them.
    """
    some = [Listed(**each) for each in codec.decode(fan.next)] if fan.next else []
    if not some:
        return [], False
    kinds = codec.decode(fan.kinds)
    named = [(each, _thread_id(head, fan, kinds, each)) for each in some]
    born = _bear(db, connection, head, fan, named, kinds)
    return born, fan.alive + len(born) < fan.max_running


def clear(db: Database, case: UUID) -> None:
    """Cancel what the case has left behind, and what that leaves behind. What somebody else has in hand stays for the
    sweep's next round.
    """
    todo = [case]
    while todo:
        left = todo.pop()
        for row in db.all(sql.LEFT_BY, {"id": left}):
            todo += _clear(db, left, row.seq)
            db.run(sql.CLEARED, {"id": left, "seq": row.seq})


def _clear(db: Database, case: UUID, seq: int) -> list[UUID]:
    """Cancel one fan-out's unfinished cases; those of them that have left some themselves."""
    message = "the case that it was a branch of has ended, or has gone on without it"
    error = codec.encode({"type": "ParentLeft", "message": message})
    fanned: list[UUID] = []
    while True:
        params = {"id": case, "seq": seq, "limit": CLEARED_AT_ONCE, "error": error}
        cancelled = db.all(sql.CLEAR, params)
        fanned += [row.id for row in cancelled if row.fans_out]
        if len(cancelled) < CLEARED_AT_ONCE:
            return fanned


def left(db: Database, limit: int) -> list[UUID]:
    """Cases that have left branches behind which are still to be cancelled."""
    return [row.id for row in db.all(sql.LEFT, {"limit": limit})]


def _thread_id(head: Row, fan: Row, kinds: list[dict[str, Any]], row: Listed) -> str:
    if row.thread_id is not None:
        return str(row.thread_id)
    number = row.number if row.name is None and fan.shape != "one" else None
    return branch_thread_id(head.thread_id, row.name or kinds[row.kind]["name"], fan.seq, number)


def _bear(
    db: Database,
    connection: sa.Connection,
    head: Row,
    fan: Row,
    some: Sequence[tuple[Listed, str]],
    kinds: list[dict[str, Any]],
) -> list[Ring]:
    ids = {row.number: case_id(kinds[row.kind]["workflow"], thread_id) for row, thread_id in some}
    parked = {row.number: park(row.large, codec.decode(row.large)) for row, _ in some if row.large is not None}
    params = {
        "id": head.id,
        "seq": fan.seq,
        "made": some[-1][0].number + 1,
        "numbers": list(ids),
        "ids": list(ids.values()),
        "runs": [branch_run(head.run, fan.seq, number) for number in ids],
        "thread_ids": [thread_id for _, thread_id in some],
        "parked": [parked[row.number][0] if row.number in parked else None for row, _ in some],
    }
    made = db.within(connection, sql.BEAR, params)
    born = {row.number for row in made}
    for number in parked.keys() & born:  # now that there is a case for them
        keep(connection.execute, ids[number], parked[number][1])
    missing = [(row, thread_id) for row, thread_id in some if row.number not in born]
    again = _renamed(connection, head, fan, missing, ids) if missing else []
    return rings(made) + (_bear(db, connection, head, fan, again, kinds) if again else [])


def _renamed(
    connection: sa.Connection, head: Row, fan: Row, missing: Sequence[tuple[Listed, str]], ids: dict[int, UUID]
) -> list[tuple[Listed, str]]:
    """Those whose thread id an earlier visit's child has, under another one. The others are refused."""
    found = connection.execute(sql.TAKEN, {"ids": [ids[row.number] for row, _ in missing]})
    parents = {row.id: row.parent for row in found}
    again = []
    for row, thread_id in missing:
        other = f"{row.thread_id}#{fan.seq}"
        if row.thread_id is not None and parents.get(ids[row.number]) == head.id and thread_id != other:
            again.append((row, other))
            continue
        message = f"there is no case for it, because the thread id {thread_id!r} is taken by another one"
        error = {"type": "CaseExists", "message": message, "thread_id": thread_id}
        at = {"id": head.id, "seq": fan.seq, "number": row.number}
        connection.execute(sql.REFUSE, at | {"error": codec.encode(error)})
    return again
