"""Keepstep's tables as JSON, and back: as they were, into tables that may have more columns by now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.tables import SCHEMA, metadata

HOME = Path(__file__).parent
BRANCHES = HOME / "branches"
TABLES = ("cases", "heads", "checkpoints", "attempts", "calls", "signals", "waits", "audit", "hooks", "blobs")
OF_BRANCHES = ("fans", "branches")


def files(home: Path = HOME) -> list[Path]:
    """One for each release, named by it; of open fan-outs, in BRANCHES."""
    return sorted(home.glob("*.json"))


def dump(db: Database, expected: dict[str, Any]) -> str:
    """All rows, each value as PostgreSQL's text of it: JSON as it is stored, NULs included. expected: what to find."""
    tables = {name: _rows(db, name) for name in (*TABLES, *OF_BRANCHES)}
    return json.dumps({"expected": expected, "tables": tables}, indent=1)


def restore(db: Database, path: Path) -> dict[str, Any]:
    """Put a release's rows into the tables of today; what is to be found."""
    kept = json.loads(path.read_text())
    for name, rows in kept["tables"].items():
        for row in rows:
            db.run(_insert(name, list(row)), row)
        if rows and metadata.tables[f"{SCHEMA}.{name}"].columns[0].identity is not None:
            last = f"select setval(pg_get_serial_sequence('{SCHEMA}.{name}', 'id'), max(id)) from {SCHEMA}.{name}"
            db.all(sa.text(last))  # new rows come after those
    expected: dict[str, Any] = kept["expected"]
    return expected


def _rows(db: Database, name: str) -> list[dict[str, str | None]]:
    columns = metadata.tables[f"{SCHEMA}.{name}"].columns.keys()
    texts = ", ".join(f'"{column}"::text as "{column}"' for column in columns)
    return [dict(row._mapping) for row in db.all(sa.text(f"select {texts} from {SCHEMA}.{name} order by 1, 2, 3"))]


def _insert(name: str, columns: list[str]) -> sa.TextClause:
    table = metadata.tables[f"{SCHEMA}.{name}"]
    kinds = {column: table.columns[column].type.compile(postgresql.dialect()) for column in columns}
    values = ", ".join(f"cast(:{column} as {kinds[column]})" for column in columns)
    names = ", ".join(f'"{column}"' for column in columns)
    return sa.text(f"insert into {SCHEMA}.{name} ({names}) overriding system value values ({values})")
