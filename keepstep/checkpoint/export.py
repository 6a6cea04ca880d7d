"""All that the database knows of a case, as lines of JSON: for moving it, for keeping it, for whoever has a right to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.erasure import unknown
from keepstep.checkpoint.sql import export as sql
from keepstep.checkpoint.sql import retention
from keepstep.steps.keys import case_id
from keepstep.steps.secret import HIDDEN, Cover, hide, hide_operations

CHUNK = 500
"""Rows that are fetched at a time: a case may be longer than the memory is large."""


def export(db: Database, workflow: str, thread_id: str, *, secrets: bool = False) -> Iterator[dict[str, Any]]:
    """Every row of the case and its children, as {"table": ..., "row": {...}}, as of one instant. Raises UnknownCase.

    secrets: with the values of secret fields; otherwise *** stands for them.
    """
    case = case_id(workflow, thread_id)
    with db.snapshot() as connection:
        if connection.execute(sql.SECRETS, {"id": case}).first() is None:
            raise unknown(db, workflow, thread_id)
        children = [row.id for row in connection.execute(retention.CHILDREN, {"ids": [case]})]
        for one in (case, *children):
            marked = connection.execute(sql.SECRETS, {"id": one}).one().secrets or []
            mask = None if secrets or not marked else _Mask(connection, one, marked)
            for table, statement in sql.ROWS.items():
                found = connection.execute(statement, {"id": one})
                for row in found.yield_per(CHUNK):
                    values = codec.decode(row.row)
                    yield {"table": table, "row": values if mask is None else mask.row(table, values)}


def _parts(payload: Any) -> Iterator[tuple[str, Any]]:
    """The values in a checkpoint, each with where it stands in the state."""
    if not isinstance(payload, list):
        yield "", payload
        return
    for one in payload:
        yield one.get("path", ""), one.get("value")


class _Mask:
    """Hides what is secret: states by their fields; of what else there is, everything that may hold a value of them."""

    def __init__(self, connection: sa.Connection, case: Any, marked: list[str]):
        self._marked = marked
        self._fields = {row.name: row.into_field for row in connection.execute(sql.WAITED_FOR, {"id": case})}
        written = connection.execute(sql.PAYLOADS, {"id": case}).yield_per(CHUNK)
        self._cover = Cover.gather(marked, (part for row in written for part in _parts(codec.decode(row.payload))))

    def row(self, table: str, row: dict[str, Any]) -> dict[str, Any]:
        """The row as it may be shown."""
        if table == "cases":
            row = {**row, "input": hide(row["input"], self._marked)}
        elif table == "checkpoints":
            hidden = hide if row["is_snapshot"] else hide_operations
            row = {**row, "payload": hidden(row["payload"], self._marked)}
        elif table == "signals":
            row = {**row, "payload": self._payload(row["name"], row["payload"])}
        elif table in ("blobs", "calls"):  # nobody can tell what is in them
            value = "value" if table == "blobs" else "result"
            row = {**row, value: None if row[value] is None else HIDDEN}
        elif table == "attempts" and isinstance(row["error"], dict):
            error = {**row["error"], **({"result": HIDDEN} if "result" in row["error"] else {})}
            row = {**row, "error": {**error, "change": hide_operations(error.get("change"), self._marked)}}
        covered: dict[str, Any] = self._cover.json(row)
        return covered

    def _payload(self, name: str, payload: Any) -> Any:
        if name not in self._fields:
            return HIDDEN
        field = self._fields[name]
        return payload if field is None else hide(payload, self._marked, f"/{field}")
