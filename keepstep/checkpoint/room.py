"""What takes room in the database, by table and by workflow, with warnings where it will grow for no reason."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.sql import room as sql

SAMPLED = 256 * 2**20
"""Bytes of checkpoints from which on a sample of them is read, of about this size."""
DEAD_ROWS, DEAD_SHARE = 10_000, 0.3
"""Dead rows that are worth a word: so many, and so large a part of the table."""
OLD_TRANSACTION = 600.0


@dataclass(frozen=True, kw_only=True)
class TableRoom:
    """Bytes of a table: heap, large columns apart (toast), indexes. rows, dead: as PostgreSQL estimates them."""

    name: str
    rows: int
    dead: int
    heap: int
    toast: int
    indexes: int
    vacuumed: datetime | None

    @property
    def bytes(self) -> int:
        """Of all three."""
        return self.heap + self.toast + self.indexes


@dataclass(frozen=True, kw_only=True)
class WorkflowRoom:
    """Cases of a workflow. bytes: of their checkpoints without indexes. for_ever: ended ones without a retention.

    overdue: past their retention for more than an hour.
    """

    workflow: str
    live: int
    ended: int
    for_ever: int
    overdue: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Room:
    """estimated: the workflows' bytes are from a sample."""

    tables: list[TableRoom]
    workflows: list[WorkflowRoom]
    estimated: bool
    warnings: list[str]


def measure(db: Database) -> Room:
    """Look. Of much it reads a sample only; counting the cases reads all of `cases`."""
    found = db.all(sql.TABLES)
    tables = [_table(row) for row in found]
    heap = sum(table.heap + table.toast for table in tables if table.name == "checkpoints")
    percent = min(100.0, 100.0 * SAMPLED / max(heap, 1))
    bytes_of = {row.workflow: int(row.bytes * 100 / percent) for row in db.all(sql.PAYLOADS, {"percent": percent})}
    workflows = [_workflow(row, bytes_of.get(row.workflow, 0)) for row in db.all(sql.WORKFLOWS)]
    server = db.all(sql.SERVER)[0]
    warnings = [*_of_server(server, found), *_of_tables(tables), *_of_workflows(workflows)]
    return Room(tables=tables, workflows=workflows, estimated=percent < 100, warnings=warnings)


def _of_server(server: Row, tables: list[Row]) -> list[str]:
    warnings = []
    if not server.autovacuum:
        warnings.append("autovacuum is off: every table grows with each step. Set autovacuum = on.")
    for table in tables:
        if table.unattended:
            reset = f"alter table keepstep.{table.name} reset (autovacuum_enabled)"
            warnings.append(f"autovacuum is off for {table.name}, which will grow for no reason. Run: {reset};")
    if server.oldest is not None and server.oldest > OLD_TRANSACTION:
        warnings.append(
            f"a transaction is open for {server.oldest / 60:,.0f} minutes; no row that died since can be cleared away. "
            "See pg_stat_activity, by xact_start."
        )
    return warnings


def _of_tables(tables: list[TableRoom]) -> list[str]:
    return [
        f"{table.name} is bloated: {table.dead:,} dead rows beside {table.rows:,} live ones. If it stays so, "
        f"autovacuum doesn't keep up: run vacuum keepstep.{table.name}; "
        "and see autovacuum_max_workers and vacuum_cost_limit."
        for table in tables
        if table.dead >= DEAD_ROWS and table.dead > DEAD_SHARE * (table.rows + table.dead)
    ]


def _of_workflows(workflows: list[WorkflowRoom]) -> list[str]:
    warnings = []
    for one in workflows:
        if one.for_ever:
            warnings.append(
                f"{one.workflow} keeps {one.for_ever:,} ended cases for ever: it had no retention when they started. "
                f"Declare one, and delete old ones: keepstep prune --workflow {one.workflow} --older-than 90d"
            )
        if one.overdue:
            warnings.append(
                f"{one.overdue:,} cases of {one.workflow} are past their retention for more than an hour: no worker "
                "runs, or they don't keep up. See: keepstep prune"
            )
    return warnings


def _table(row: Row) -> TableRoom:
    names = ("name", "rows", "dead", "heap", "toast", "indexes", "vacuumed")
    return TableRoom(**{name: getattr(row, name) for name in names})


def _workflow(row: Row, size: int) -> WorkflowRoom:
    counted: dict[str, Any] = {
        name: getattr(row, name) for name in ("workflow", "live", "ended", "for_ever", "overdue")
    }
    return WorkflowRoom(**counted, bytes=size)
