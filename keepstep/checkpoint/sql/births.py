"""Start cases."""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import GRID

# Insert cases, their heads and their first checkpoints. No row for a thread id that is taken: a conflict aborts no
# transaction, so it is safe inside the caller's own. The rows come sorted by id, so that two such statements never wait
# for each other; they are told apart by `run`, so that the same thread id twice in one statement makes one case. All
# types are said, because drivers differ in what they send. `lent`: in the caller's transaction, of whose end we may
# never hear, so the sweep looks at the case as soon as it sees it. `patience`: milliseconds to wait for another
# transaction that is starting the same thread id; null: as long as the caller's own transaction says.
START = text(f"""
with asked as materialized (
  select case when cast(:patience as text) is null then ''
              else set_config('lock_timeout', cast(:patience as text), true) end as patience
), r as (
  select r.* from asked, unnest(cast(:ids as uuid[]), cast(:runs as uuid[]), cast(:thread_ids as text[]),
                                cast(:inputs as text[]), cast(:payloads as text[]))
                             as r (id, run, thread_id, input, payload)
   where asked.patience is not null
), c as (
  insert into keepstep.cases (id, run, workflow, thread_id, tags, input, retention, secrets, hooks, queue,
                              priority)
  select r.id, r.run, cast(:workflow as text), r.thread_id, cast(:tags as jsonb), cast(r.input as json),
         cast(:retention as jsonb), cast(:secrets as text[]), cast(:hooks as text[]), cast(:pinned_queue as text),
         cast(:priority as smallint)
    from r
  on conflict do nothing
  returning id, run
), h as (
  insert into keepstep.heads
         (id, workflow, seq, status, step, queue, timeout, in_doubt, heartbeat_timeout, schema_version, due_at,
          snapshot_seq, pinned_queue, priority)
  select id, cast(:workflow as text), 0, cast(:status as text), cast(:target as text), cast(:queue as text),
         cast(:timeout as float8), cast(:in_doubt as text), cast(:heartbeat_timeout as float8),
         cast(:schema_version as int),
         coalesce(clock_timestamp() + make_interval(secs => cast(:delay as float8)),
                  case when cast(:lent as boolean) then clock_timestamp() + interval '1 second' else {GRID} end), 0,
         cast(:pinned_queue as text), cast(:priority as smallint)
    from c
), k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select c.id, 0, 'start', 'start', cast(:status as text), cast(:target as text), 0, cast(:schema_version as int), true,
         cast(r.payload as json)
    from c join r on r.run = c.run
)
select run from c
""")

# What the cases that have the thread ids were started with, in which run, and whether they have ended.
INPUTS_OF = text("""
select id, run, input::text as input, status is not null as ended from keepstep.cases
 where id = any(cast(:ids as uuid[]))
""")

# What one case was started with.
INPUT_OF = text("select input::text as input from keepstep.cases where id = :id")

# The terms of a start that restarts an ended case, which has been revived with its old ones.
RENEW_TERMS = text("""
with k as (
  update keepstep.cases
     set tags = coalesce(cast(:tags as jsonb), tags), queue = cast(:queue as text),
         priority = cast(:priority as smallint)
   where id = :id
)
update keepstep.heads
   set pinned_queue = cast(:queue as text), queue = coalesce(cast(:queue as text), queue),
       priority = cast(:priority as smallint)
 where id = :id
""")

# A restart doesn't wait for ever on another transaction that is starting the same thread id.
LOCK_TIMEOUT = text("select set_config('lock_timeout', :milliseconds, true)")
