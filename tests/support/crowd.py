"""Thousands of waiting cases, made by one statement."""

from __future__ import annotations

import sqlalchemy as sa

from keepstep.checkpoint.database import Database

_CROWD = sa.text("""
with k as (
  insert into keepstep.cases (id, run, workflow, thread_id, input)
  select gen_random_uuid(), gen_random_uuid(), :workflow, 'W' || n, '{}' from generate_series(1, :count) n returning id
), h as (
  insert into keepstep.heads (id, workflow, seq, status, step, queue, timeout, in_doubt, schema_version, due_at,
                              snapshot_seq)
  select id, :workflow, 1, 'waiting', 'ask', 'keepstep', 60, 'retry', 1, 'infinity', 0 from k
), w as (
  insert into keepstep.waits (case_id, seq, name, into_field) select id, 1, 'approval', 'approval' from k
)
insert into keepstep.checkpoints (case_id, seq, kind, step, status, attempt, schema_version, is_snapshot, payload)
select id, 0, 'start', 'start', 'queued', 0, 1, true, '{}' from k
""")


def crowd(db: Database, count: int, workflow: str = "approve") -> None:
    """Let so many cases wait for a signal without a deadline, and let the planner know of them."""
    db.run(_CROWD, {"workflow": workflow, "count": count})
    db.run(sa.text("analyze"), {})
