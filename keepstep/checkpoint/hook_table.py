"""The table of hooks that have to be called."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID

_instant = sa.DateTime(timezone=True)


def hook_table(metadata: sa.MetaData) -> sa.Table:
    """The table `hooks`."""
    return sa.Table(
        "hooks",
        metadata,
        sa.Column("id", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("case_id", UUID, nullable=False),
        sa.Column("event", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column(
            "key", UUID, nullable=False, server_default=sa.func.gen_random_uuid()
        ),  # root of its idempotency keys
        sa.Column("name", sa.Text),  # of the wait that it is about
        sa.Column("detail", sa.JSON),  # why it happened, as far as the case itself doesn't say so any more
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("due_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("error", sa.JSON),
        sa.Index("hooks_due", "due_at"),
        sa.Index("hooks_case", "case_id"),
    )
