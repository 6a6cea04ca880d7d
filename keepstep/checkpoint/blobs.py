"""The large values of a case in the database: written before the checkpoint that names them, read when one does.

A case without large values pays nothing: no statement, no column. One that has some pays a second statement when its
chain names them, and another one when a new value is stored. See `keepstep.checkpoint.parked`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint.chain import assemble
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.parked import resolve
from keepstep.checkpoint.sql import blobs as sql
from keepstep.steps.chunks import Fetch
from keepstep.steps.state import JSON

Rows = Callable[[sa.TextClause, Mapping[str, Any]], Any]
"""Runs a statement; its rows."""


def state_of(rows: Rows, case: UUID, chain: str | None, seq: int, seen: set[str] | None = None) -> JSON:
    """The state that a stored chain leads to; CheckpointDamaged if anything of it is missing.

    seen: takes the digests of its large values.
    """
    return assemble(resolve(chain, fetching(rows, case), seen), seq)


def fetching(rows: Rows, case: UUID) -> Fetch:
    """How the case's large values are fetched."""

    def fetch(digests: Collection[str]) -> Mapping[str, str]:
        return {row.digest: row.value for row in rows(sql.FETCH, {"id": case, "digests": list(digests)})}

    return fetch


def keep(rows: Rows, case: UUID, blobs: Mapping[str, str], known: Collection[str] = ()) -> None:
    """Store those that aren't there yet. known: digests that certainly are."""
    new = {digest: value for digest, value in blobs.items() if digest not in known}
    if new:
        rows(sql.KEEP, {"id": case, "digests": list(new), "values": list(new.values())})


class Keeping:
    """Runs a statement together with one that stores values: both take effect, or neither does.

    each: of several cases, the values that the statement's checkpoints name, and those of them that are stored already.
    """

    def __init__(self, db: Database, each: Iterable[tuple[UUID, Mapping[str, str], Collection[str]]]):
        new = [(case, *one) for case, blobs, known in each for one in blobs.items() if one[0] not in known]
        self._db, names = db, ("blob_cases", "blob_digests", "blob_values")
        self._new = {name: [one[n] for one in new] for n, name in enumerate(names)} if new else {}

    def all(self, statement: sa.TextClause, params: Mapping[str, Any]) -> list[Row]:
        """Its rows; without values that are new, nothing else is run."""
        if not self._new:
            return self._db.all(statement, params)
        return self._db.together(sql.KEEP_MANY, statement, {**params, **self._new})

    def one(self, statement: sa.TextClause, params: Mapping[str, Any]) -> Row | None:
        """Its first row."""
        return next(iter(self.all(statement, params)), None)
