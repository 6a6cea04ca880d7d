"""The summaries of what was done lately are made by vacuum, not asked for by each insert.

Nothing is rewritten. An index's option needs its lock for a moment, for which `schema.upgrade` waits only briefly.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = ("checkpoints", "attempts")


def upgrade() -> None:
    """PostgreSQL remembers 256 requests for summaries between two rounds of autovacuum, 32 MiB of checkpoints, and
    writes for each one beyond that a line into its log, with the whole statement and so with what cases hold.
    """
    for table in TABLES:  # these first: a vacuum that runs is waited for before anybody has to wait
        op.execute(
            f"alter table keepstep.{table} set (autovacuum_vacuum_insert_scale_factor = 0, "
            "autovacuum_vacuum_insert_threshold = 100000)"
        )
    for table in TABLES:
        op.execute(f"alter index keepstep.{table}_at set (autosummarize = off)")


def downgrade() -> None:
    """As it was."""
    for table in TABLES:
        op.execute(f"alter index keepstep.{table}_at set (autosummarize = on)")
        op.execute(
            f"alter table keepstep.{table} reset (autovacuum_vacuum_insert_scale_factor, "
            "autovacuum_vacuum_insert_threshold)"
        )
