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


_PARENTS = sa.text("""
with p as (
  insert into keepstep.cases (id, run, workflow, thread_id, input)
  select gen_random_uuid(), gen_random_uuid(), 'fanning', 'P' || n, '{}' from generate_series(1, :count) n
  returning id, thread_id
), ph as (
  insert into keepstep.heads (id, workflow, seq, status, step, queue, timeout, in_doubt, schema_version, due_at,
                              entered_at, snapshot_seq)
  select id, 'fanning', 1, 'waiting', 'begin', 'keepstep', 60, 'retry', 1,
         clock_timestamp() + random() * interval '5 minutes', clock_timestamp() - interval '1 hour', 0 from p
), f as (
  insert into keepstep.fans (case_id, seq, shape, into_field, on_error, max_running, total, made, kinds)
  select id, 1, 'list', 'results', 'fail', 2, 2, 2, '[]' from p
), b as (
  insert into keepstep.branches (case_id, seq, number, kind, payload)
  select id, 1, n, 0, '{}' from p, generate_series(0, 1) n
), c as (
  insert into keepstep.cases (id, run, workflow, thread_id, input, parent, parent_seq, branch)
  select gen_random_uuid(), gen_random_uuid(), 'fanning.branches', thread_id || '/work#1[' || n || ']', '{}', id, 1, n
    from p, generate_series(0, 1) n
  returning id
), h as (
  insert into keepstep.heads (id, workflow, seq, status, step, queue, timeout, in_doubt, schema_version, due_at,
                              snapshot_seq)
  select id, 'fanning.branches', 1, 'waiting', 'work', 'keepstep', 60, 'retry', 1, 'infinity', 0 from c
), w as (
  insert into keepstep.waits (case_id, seq, name, into_field) select id, 1, 'answer', 'result' from c
)
insert into keepstep.checkpoints (case_id, seq, kind, step, status, attempt, schema_version, is_snapshot, payload)
select id, 0, 'start', 'start', 'queued', 0, 1, true, '{}' from (select id from p union all select id from c) every
""")


def crowd_of_parents(db: Database, count: int) -> None:
    """Let so many cases wait for two branches each, which wait for a signal; the sweep looks at them by and by."""
    db.run(_PARENTS, {"count": count})
    db.run(sa.text("analyze"), {})
