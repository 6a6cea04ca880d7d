"""The tables that keep storage small and lawful: large values apart, and what is left of an erased case."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID


def storage_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Declare blobs and erasures."""
    blobs = sa.Table(
        "blobs",
        metadata,
        sa.Column("case_id", UUID, primary_key=True),
        sa.Column("digest", sa.Text, primary_key=True),  # SHA-256 of the value's JSON, in hex
        sa.Column("value", sa.JSON, nullable=False),
    )
    erasures = sa.Table(
        "erasures",
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("case_id", UUID, nullable=False),  # made from workflow and thread id, which is not kept itself
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("children", sa.Integer, nullable=False),  # that were erased with it
        sa.Column("actor", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Index("erasures_case", "case_id"),
    )
    return blobs, erasures
