"""The tables of the workers: which live, and what code each of them ran."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID

_instant = sa.DateTime(timezone=True)


def node_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Declare nodes and codes."""
    nodes = sa.Table(
        "nodes",
        metadata,
        sa.Column("id", UUID, primary_key=True),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("host_id", sa.Text, nullable=False),  # boot id and pid namespace: where a pid can be judged
        sa.Column("process", sa.Text, nullable=False),  # "pid:start" of the main process
        sa.Column("lock_key", sa.BigInteger, nullable=False),
        sa.Column("lock_works", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("beat", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("queues", sa.JSON, nullable=False),
        sa.Column("workflows", sa.JSON, nullable=False),
        sa.Column("steps", sa.JSON, nullable=False, server_default="{}"),  # names and aliases, by workflow
        sa.Column(
            "step_queues", sa.JSON, nullable=False, server_default="{}"
        ),  # by workflow and step, as its code says
        sa.Column("tallies", sa.JSON, nullable=False, server_default="{}"),  # what it counts of itself since its start
        sa.Column("pool", sa.Text, nullable=False),
        sa.Column("concurrency", sa.Integer, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("started_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("seen_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
        postgresql_with={"fillfactor": "50"},
    )
    codes = sa.Table(
        "codes",
        metadata,
        sa.Column("node", UUID, primary_key=True),
        sa.Column("code", sa.Text, nullable=False),  # what its deploy calls it
        sa.Column("keepstep", sa.Text, nullable=False),
        sa.Column("fingerprints", sa.JSON, nullable=False),  # by workflow
        sa.Column("until", _instant),  # when the node was seen last; NULL while it is there
        sa.Index("codes_until", "until"),
    )
    return nodes, codes
