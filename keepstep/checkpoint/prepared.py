"""The hot statements as prepared statements: parsed and planned once for each connection, executed on a raw cursor.

SQLAlchemy's execution of a text costs as much as the statement itself. Connections still come from its pool. Behind a
pooler that gives each transaction another server connection (PgBouncer), prepared statements are lost: then, or if the
settings say so, everything goes the ordinary way.
"""

from __future__ import annotations

import hashlib
import re
from collections import namedtuple
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import psycopg2

from keepstep.checkpoint.sql import batch, blobs, branches, hot, reads

LOST = {"26000", "42P05", "0A000", "42601"}
"""SQLSTATEs of a prepared statement that isn't there, is there already, whose tables have changed, or is another."""

PLANNED_AGAIN = frozenset({50, 200, 1000, 5000, 20_000})
"""Uses of a statement after which it is planned anew. PostgreSQL keeps the plan that it made while tables were small,
which reads them whole, until it next analyses them: a minute later, or more."""

_TYPES = {
    "id": "uuid",
    "lease": "uuid",
    "next_lease": "uuid",
    "owner": "uuid",
    "parent": "uuid",
    "seq": "int",
    "parent_seq": "int",
    "failed": "bool",
    "key": "int8",
    "large": "int",
    "made": "int",
    "most": "int",
    "attempt": "int",
    "schema_version": "int",
    "weight": "int",
    "is_snapshot": "bool",
    "key_read": "bool",
    "timeout": "float8",
    "heartbeat_timeout": "float8",
    "delay": "float8",
    "took": "float8",
    "until": "timestamptz",
}
"""Of parameters; the others are text."""


class Plan:
    """One statement, as PREPARE and EXECUTE have it. kinds: the types of parameters that are not those of `_TYPES`."""

    def __init__(self, name: str, statement: sa.TextClause, kinds: Mapping[str, str] = MappingProxyType({})):
        written = str(statement.compile(dialect=psycopg2.dialect()))  # type: ignore[no-untyped-call]
        names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", written)))
        numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", written).replace("%%", "%")
        # the text is part of the name: behind a pooler, releases with other texts may share a session
        self.name = f"{name}_{hashlib.sha256(numbered.encode()).hexdigest()[:12]}"
        types = ", ".join(kinds.get(name) or _TYPES.get(name, "text") for name in names)
        self.prepare = f"prepare {self.name} ({types}) as {numbered}"
        self.execute = f"execute {self.name} ({', '.join(f'%({name})s' for name in names)})"
        self._row: Any = None

    def rows(self, connection: Any, params: Mapping[str, Any], first: Plan | None = None) -> list[Any]:
        """Its rows on a connection of the pool, with the columns as attributes.

        first: to be run before it, in the same message and so in the same transaction.
        """
        with connection.cursor() as cursor:
            known = connection.info.setdefault("keepstep prepared", {})
            for plan in (self,) if first is None else (first, self):
                plan._make_sure(cursor, known)
            cursor.execute(self.execute if first is None else f"{first.execute}; {self.execute}", params)
            rows = cursor.fetchall()
            if rows and self._row is None:
                self._row = _row_type(tuple(column.name for column in cursor.description))
            return [self._row._make(row) for row in rows]

    def _make_sure(self, cursor: Any, known: dict[str, int]) -> None:
        """That the session has it. known: how often each was used."""
        uses = known.get(self.name, 0)
        if uses in PLANNED_AGAIN:
            cursor.execute(f"deallocate {self.name}")
        if uses == 0 or uses in PLANNED_AGAIN:
            cursor.execute(self.prepare)
        known[self.name] = uses + 1


def _row_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Row", names)


PLANS = {
    hot.CLAIM: Plan("keepstep_claim", hot.CLAIM),
    hot.COMMIT: Plan("keepstep_commit", hot.COMMIT),
    hot.COMPLETE: Plan("keepstep_complete", hot.COMPLETE),
    hot.ONWARD: Plan("keepstep_onward", hot.ONWARD),
    hot.IDLE: Plan("keepstep_idle", hot.IDLE),
    batch.CLAIM_MANY: Plan(
        "keepstep_claim_many", batch.CLAIM_MANY, {"id": "uuid[]", "seq": "int[]", "lease": "uuid[]"}
    ),
    batch.COMMIT_MANY: Plan("keepstep_commit_many", batch.COMMIT_MANY, batch.TYPES),
    reads.VISITS: Plan("keepstep_visits", reads.VISITS, {"steps": "text[]", "after": "int"}),
    blobs.KEEP_MANY: Plan(
        "keepstep_keep_many",
        blobs.KEEP_MANY,
        {"blob_cases": "uuid[]", "blob_digests": "text[]", "blob_values": "text[]"},
    ),
    branches.WORTH_A_LOOK: Plan("keepstep_worth_a_look", branches.WORTH_A_LOOK),
    branches.LOCK_TO_LOOK: Plan("keepstep_lock_to_look", branches.LOCK_TO_LOOK),
    branches.FAN: Plan("keepstep_fan", branches.FAN),
    branches.BEAR: Plan(
        "keepstep_bear",
        branches.BEAR,
        {"numbers": "int[]", "ids": "uuid[]", "runs": "uuid[]", "thread_ids": "text[]", "parked": "text[]"},
    ),
}
