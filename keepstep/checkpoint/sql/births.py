"""Start a case."""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import GRID

# Insert the case, its head and its first checkpoint, all or nothing. No row: the thread id is taken. A conflict
# aborts no transaction, so it is safe inside the caller's own.
START = text(f"""
with c as (
  insert into keepstep.cases (id, run, workflow, thread_id, input, retention)
  values (:id, :run, :workflow, :thread_id, cast(:input as json), :retention)
  on conflict do nothing
  returning id
), h as (
  insert into keepstep.heads
         (id, workflow, seq, status, step, queue, timeout, in_doubt, schema_version, due_at, snapshot_seq)
  select id, :workflow, 0, 'queued', :target, :queue, :timeout, :in_doubt, :schema_version, {GRID}, 0 from c
), k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select id, 0, 'start', 'start', 'queued', :target, 0, :schema_version, true, cast(:payload as json) from c
)
select id from c
""")

# What the case that has the thread id was started with.
INPUT_OF = text("select input::text as input from keepstep.cases where id = :id")

# A start of its own doesn't wait for ever on another transaction that is starting the same thread id.
LOCK_TIMEOUT = text("select set_config('lock_timeout', :milliseconds, true)")
