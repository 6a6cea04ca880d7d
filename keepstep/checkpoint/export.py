"""All that the database knows of a case, as JSON: to move it, to keep it, or for whoever has a right to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from keepstep.checkpoint import codec
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.erasure import unknown
from keepstep.checkpoint.mask import CHUNK, Mask
from keepstep.checkpoint.sql import export as sql
from keepstep.checkpoint.sql import retention, steering
from keepstep.steps.keys import case_id


def export(db: Database, workflow: str, thread_id: str, *, secrets: bool = False) -> Iterator[dict[str, Any]]:
    """Every row of the case and its children, as {"table": ..., "row": {...}}, as of one instant. Raises UnknownCase.

    secrets: with the values of secret fields; otherwise *** stands for them.
    """
    case = case_id(workflow, thread_id)
    with db.snapshot() as connection:
        if connection.execute(steering.KNOWN, {"id": case}).first() is None:
            raise unknown(db, workflow, thread_id)
        children = [row.id for row in connection.execute(retention.CHILDREN, {"ids": [case]})]
        for one in (case, *children):
            mask = None if secrets else Mask.of(connection, one)
            for table, statement in sql.ROWS.items():
                for row in connection.execute(statement, {"id": one}).yield_per(CHUNK):
                    values = codec.decode(row.row)
                    yield {"table": table, "row": values if mask is None else mask.row(table, values)}
