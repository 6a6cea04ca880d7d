"""All rows of a case."""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.tables import metadata

_ORDER = {
    "cases": "id",
    "heads": "id",
    "checkpoints": "seq",
    "blobs": "digest",
    "attempts": "id",
    "calls": "begun_at",
    "waits": "seq, name",
    "fans": "seq",
    "branches": "seq, number",
    "signals": "id",
    "hooks": "id",
    "audit": "id",
}
"""The tables in which a case has rows, and how they come in order."""
assert set(_ORDER) == {t.name for t in metadata.tables.values()} - {"nodes", "codes", "erasures"}

# By table. The row as JSON, with stored JSON in it as it is.
ROWS = {
    name: text(f"""
select row_to_json(t)::text as row from keepstep.{name} t
 where {"case_id" if "case_id" in metadata.tables[f"keepstep.{name}"].columns else "id"} = :id order by {order}
""")
    for name, order in _ORDER.items()
}
