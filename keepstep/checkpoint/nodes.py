"""The workers' main processes: appear, beat, be judged, leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import nodes as sql


@dataclass(frozen=True, kw_only=True)
class Node:
    """One worker's main process.

    process: "pid:start". workflows: schema versions by name. steps: names by workflow. step_queues: each step's queue,
    by workflow. version: keepstep's. code: what its deploy calls it. fingerprints: by workflow, for people.
    """

    id: UUID
    host: str
    host_id: str
    process: str
    queues: tuple[str, ...]
    workflows: dict[str, int]
    pool: str
    concurrency: int
    version: str
    steps: dict[str, list[str]] = field(default_factory=dict)
    step_queues: dict[str, dict[str, str]] = field(default_factory=dict)
    code: str = ""
    fingerprints: dict[str, str] = field(default_factory=dict)

    @property
    def lock_key(self) -> int:
        """The advisory lock's key: 63 bits of the id, so that it is never negative."""
        return self.id.int & (2**63 - 1)


@dataclass(frozen=True, kw_only=True)
class Sighting:
    """Another node as a judge sees it. locked: somebody's session holds its lock."""

    id: UUID
    host: str
    host_id: str
    process: str
    beat: int
    lock_works: bool
    locked: bool


@dataclass(frozen=True, kw_only=True)
class NodeView:
    """A worker as people see it. silent: seconds since its last heartbeat. lock_works: its session holds its lock."""

    host: str
    process: str
    pool: str
    concurrency: int
    version: str
    queues: tuple[str, ...]
    workflows: dict[str, int]
    started_at: datetime
    silent: float
    lock_works: bool = True


def lock(connection: sa.Connection, node: Node) -> bool:
    """Take the node's lock on this session, for as long as the connection lives."""
    return bool(connection.execute(sql.LOCK, {"lock_key": node.lock_key}).scalar())


def beat(connection: sa.Connection, node: Node) -> int:
    """Say that the node is alive; registers it if it is new or was taken for dead. The beat's number."""
    row = connection.execute(sql.BEAT, {"id": node.id}).first()
    if row is None:
        connection.execute(sql.REGISTER, _columns(node))
        row = connection.execute(sql.BEAT, {"id": node.id}).first()
    return 0 if row is None else int(row.beat)


def others(db: Database, me: UUID) -> list[Sighting]:
    """All other nodes."""
    return [
        Sighting(
            id=row.id,
            host=row.host,
            host_id=row.host_id,
            process=row.process,
            beat=row.beat,
            lock_works=row.lock_works,
            locked=row.locked,
        )
        for row in db.all(sql.OTHERS, {"id": me})
    ]


def everyone(db: Database) -> list[NodeView]:
    """All nodes, the silent ones included."""
    return [
        NodeView(
            host=row.host,
            process=row.process,
            pool=row.pool,
            concurrency=row.concurrency,
            version=row.version,
            queues=tuple(codec.decode(row.queues)),
            workflows=codec.decode(row.workflows),
            started_at=row.started_at,
            silent=row.silent,
            lock_works=row.lock_works,
        )
        for row in db.all(sql.LIST)
    ]


def tell(db: Database, node: UUID, tallies: dict[str, int]) -> None:
    """Write down what a node has counted of itself since its start, by name."""
    db.run(sql.TELL, {"id": node, "tallies": codec.encode(tallies)})


def knows_step(db: Database, workflow: str, step: str) -> bool:
    """Whether any node has code for this step."""
    return db.one(sql.KNOWS_STEP, {"workflow": workflow, "step": step}) is not None


def mixed(db: Database) -> bool:
    """Whether living nodes have different versions of a workflow: a deploy is under way."""
    return db.one(sql.MIXED, {}) is not None


def remove(db: Database, ids: Sequence[UUID]) -> int:
    """Forget nodes that own no running case any more; how many."""
    return db.run(sql.REMOVE, {"ids": list(ids)}) if ids else 0


def forget_codes(db: Database, limit: int) -> int:
    """Forget the code of nodes of which no checkpoint can be left; how many."""
    return db.run(sql.FORGET_CODES, {"limit": limit})


def _columns(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "host": node.host,
        "host_id": node.host_id,
        "process": node.process,
        "lock_key": node.lock_key,
        "queues": codec.encode(list(node.queues)),
        "workflows": codec.encode(node.workflows),
        "pool": node.pool,
        "concurrency": node.concurrency,
        "version": node.version,
        "steps": codec.encode(node.steps),
        "step_queues": codec.encode(node.step_queues),
        "code": node.code,
        "fingerprints": codec.encode(node.fingerprints),
    }
