"""The tables of fan-outs: how far each is worked off, and its list."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import UUID

_instant = sa.DateTime(timezone=True)


def branch_tables(metadata: sa.MetaData) -> tuple[sa.Table, sa.Table]:
    """Declare fans and branches."""
    fans = sa.Table(
        "fans",
        metadata,
        sa.Column("case_id", UUID, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("shape", sa.Text, nullable=False),  # of the results: a list, a dict by name, or one alone
        sa.Column("into_field", sa.Text),
        sa.Column("then_target", sa.JSON),
        sa.Column("on_error", sa.Text, nullable=False),
        sa.Column("max_running", sa.Integer, nullable=False),  # cases that may be unfinished at a time
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("made", sa.Integer, nullable=False, server_default="0"),  # the cursor: of so many the cases were made
        sa.Column("kinds", sa.JSON, nullable=False),  # what its branches have in common
        sa.Column("opened_at", _instant, nullable=False, server_default=sa.func.clock_timestamp()),
        sa.Column("closed_at", _instant),
        sa.Column("fate", sa.Text),  # NULL while the case waits for it
        sa.Column("cleared", sa.Boolean, nullable=False, server_default=sa.false()),  # what was left is cancelled
        sa.CheckConstraint("shape in ('list', 'dict', 'one')", name="fans_shape"),
        sa.CheckConstraint("on_error in ('fail', 'collect')", name="fans_on_error"),
        sa.CheckConstraint("made between 0 and total and total > 0 and max_running > 0", name="fans_made"),
        sa.CheckConstraint("fate in ('joined', 'failed', 'unfit', 'left')", name="fans_fate"),
        sa.CheckConstraint("(fate is null) = (closed_at is null)", name="fans_closed"),
        sa.CheckConstraint("fate <> 'joined' or made = total", name="fans_whole"),
        sa.Index("fans_open", "opened_at", postgresql_where=sa.text("fate is null")),
        sa.Index("fans_left", "closed_at", postgresql_where=sa.text("fate in ('failed', 'left') and not cleared")),
    )

    branches = sa.Table(
        "branches",
        metadata,
        sa.Column("case_id", UUID, primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("kind", sa.SmallInteger, nullable=False),  # its place in the fan-out's kinds
        sa.Column("name", sa.Text),
        sa.Column("thread_id", sa.Text),  # that the step chose for it
        sa.Column("payload", sa.JSON, nullable=False),  # its first state
        sa.Column("input", sa.JSON),  # what was sent, if that is something else
        sa.Column("error", sa.JSON),  # why there is no case for it
        sa.Index("branches_refused", "case_id", "seq", "number", postgresql_where=sa.text("error is not null")),
    )
    return fans, branches
