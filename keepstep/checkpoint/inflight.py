"""The cases that live, as they are stored, for somebody who wants to know whether other code could go on with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import Rows, fetching, state_of
from keepstep.checkpoint.database import Row
from keepstep.checkpoint.gathered import Outcome, outcome
from keepstep.checkpoint.sql import inflight as sql
from keepstep.steps.chunks import Fetch, nothing
from keepstep.steps.errors import CheckpointDamaged
from keepstep.steps.state import JSON

BATCH = 100
"""Cases read by one statement: with states of four megabytes, four hundred of them."""
LOWEST, HIGHEST = UUID(int=0), UUID(int=2**128 - 1)


@dataclass(frozen=True, kw_only=True)
class StoredFan:
    """A fan-out that a case waits for: shape, into, then, on_error as they are stored.

    goes_on: whether a branch is still to end. to_begin: number, kind and first state of each that has no case yet.
    ended: what the others have come to; what can't be read of it is left out. Both are read as they are asked for.
    """

    shape: str
    into: str | None
    then: Mapping[str, Any] | None
    on_error: str
    goes_on: bool
    to_begin: Iterable[tuple[int, dict[str, Any], JSON]]
    ended: Iterable[Outcome]


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A live case. state: None if `damage` says why it can't be put together. version: of the state.

    waits: the open ones, with name, into, schema, then, on_timeout, default. signals: kept ones of older code, with
    name, version, payload. secrets: where the code that started it has secret fields. fetch: reads the state's logs.
    """

    workflow: str
    thread_id: str
    seq: int
    status: str
    step: str
    queue: str
    is_pinned: bool
    version: int
    in_doubt: bool
    state: JSON | None
    damage: str | None
    waits: Sequence[Mapping[str, Any]]
    signals: Sequence[Mapping[str, Any]]
    secrets: tuple[str, ...] = ()
    fetch: Fetch = nothing
    fan: StoredFan | None = None


@dataclass(frozen=True, kw_only=True)
class Source:
    """The database that is read. behind: of a replica, how old its newest transaction is, in seconds, if it knows."""

    is_replica: bool
    behind: float | None


def source(read: Rows) -> Source:
    """What database this is."""
    [row] = read(sql.SOURCE, {})
    return Source(is_replica=row.is_replica, behind=None if row.behind is None else max(0.0, row.behind))


def each(
    read: Rows, known: Mapping[str, int], *, workflows: Sequence[str] | None = None, sample: int | None = None
) -> Iterator[Stored]:
    """Every live case, or a random sample. read: a database's `all`. known: schema versions by workflow.

    workflows: only these. One statement for each hundred, so that a replica isn't kept from what it follows.
    """
    begin = LOWEST if sample is None else uuid4()
    left = sample
    for after, until in ((begin, HIGHEST), (LOWEST, begin)):
        while left is None or left > 0:
            size = BATCH if left is None else min(BATCH, left)
            params = {
                "after": after,
                "until": until,
                "known": codec.encode(dict(known)),
                "workflows": None if workflows is None else list(workflows),
                "limit": size,
            }
            rows = list(read(sql.BATCH, params))
            yield from (_stored(read, row) for row in rows)
            left = None if left is None else left - len(rows)
            if len(rows) < size:
                break
            after = rows[-1].id


def _stored(read: Rows, row: Row) -> Stored:
    state, damage = _state(read, row)
    return Stored(
        workflow=row.workflow,
        thread_id=row.thread_id,
        seq=row.seq,
        status=row.status,
        step=row.step,
        queue=row.queue,
        is_pinned=row.is_pinned,
        version=row.schema_version,
        in_doubt=row.in_doubt,
        state=state,
        damage=damage,
        waits=codec.decode(row.waits) if row.waits else (),
        signals=codec.decode(row.signals) if row.signals else (),
        secrets=tuple(row.secrets or ()),
        fan=_fan(read, row.id, codec.decode(row.fan)) if row.fan else None,
        fetch=fetching(read, row.id),
    )


def _fan(read: Rows, case: UUID, fan: dict[str, Any]) -> StoredFan:
    at, kinds = {"id": case, "seq": fan["seq"]}, fan["kinds"]

    def to_begin() -> Iterator[tuple[int, dict[str, Any], JSON]]:
        for row in _batches(read, sql.TO_BEGIN, at, fan["made"] - 1):
            yield row.number, kinds[row.kind], codec.decode(row.payload)

    def ended() -> Iterator[Outcome]:
        for row in _batches(read, sql.ENDED, at, -1):
            with suppress(CheckpointDamaged, ValueError):  # the join tells what is wrong with it
                yield outcome(row, kinds, fan["shape"], read)

    named = {name: fan[name] for name in ("shape", "into", "then", "on_error", "goes_on")}
    return StoredFan(**named, to_begin=to_begin(), ended=ended())


def _batches(read: Rows, statement: sa.TextClause, at: Mapping[str, Any], after: int) -> Iterator[Row]:
    while rows := list(read(statement, {**at, "after": after, "limit": BATCH})):
        yield from rows
        after = rows[-1].number


def _state(read: Rows, row: Row) -> tuple[JSON | None, str | None]:
    try:
        return state_of(read, row.id, row.chain, row.seq), None
    except (CheckpointDamaged, ValueError) as error:
        return None, str(error)
