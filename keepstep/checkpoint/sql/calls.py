"""Recorded calls and heartbeats: what an attempt writes while its step runs.

Each is fenced as a commit is: the head carries the attempt's lease, and is locked, so that nobody takes it away in the
middle. Lock order: the head first, then the call. Nothing is held when the statement is over.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import FENCE

_UNFLUSHED = """set_config('synchronous_commit',
                      case in_doubt when 'retry' then 'off' else current_setting('synchronous_commit') end, true)"""

_AGAIN = "c.done_at is null and left(c.digest, 64) = left(excluded.digest, 64)"

# Write down that a call is about to be made; or find it. No row: the lease was lost. Of a call that has ended, or has
# other arguments, nothing is changed. Repeated with the same lease and `tries`, it counts the try once. Without a flush
# under policy "retry", where a lost intent does no harm.
BEGIN = text(f"""
with h as materialized (
  select id, seq, step, {_UNFLUSHED} as flush from keepstep.heads where {FENCE} for share
)
insert into keepstep.calls as c (case_id, seq, step, name, key, digest, lease)
select h.id, h.seq, h.step, :name, :key, :digest, :lease from h where h.flush is not null
on conflict (case_id, seq, step, name) do update
   set attempts = case when not ({_AGAIN}) then c.attempts
                       when c.lease = excluded.lease then greatest(c.attempts, :tries) else c.attempts + 1 end,
       begun_at = case when {_AGAIN} then excluded.begun_at else c.begun_at end,
       lease = case when {_AGAIN} then excluded.lease else c.lease end
returning attempts, digest, result::text as result
""")

# Keep the result, durably: also where a crash of the database took the unflushed intent with it. No row: the lease was
# lost. Repeating it is safe.
FINISH = text(f"""
with h as materialized (select id, seq, step from keepstep.heads where {FENCE} for share)
insert into keepstep.calls as c
       (case_id, seq, step, name, key, digest, attempts, lease, result, cost, begun_at, done_at)
select h.id, h.seq, h.step, :name, :key, :digest, :attempts, :lease, cast(:result as json), cast(:cost as json),
       clock_timestamp() - make_interval(secs => :took), clock_timestamp() from h
on conflict (case_id, seq, step, name) do update
   set attempts = excluded.attempts, lease = excluded.lease, result = excluded.result, cost = excluded.cost,
       begun_at = excluded.begun_at, done_at = excluded.done_at
returning c.attempts
""")

# Keep for people what a call returned after its attempt had been taken away.
RECORD_LATE = text("""
insert into keepstep.attempts (case_id, seq, step, attempt, lease, node, outcome, error, cost)
select id, :seq, :ran, :attempt, :lease, :owner, 'late', cast(:error as json), cast(:cost as json)
  from keepstep.cases where id = :id for key share
""")

# The step goes on. No row: the lease was lost. Never flushed: after a crash of the database the last one does.
HEARTBEAT = text(f"""
with asked as materialized (select set_config('synchronous_commit', 'off', true) as flush)
update keepstep.heads
   set heartbeat_due = clock_timestamp() + make_interval(secs => heartbeat_timeout),
       detail = coalesce(cast(:detail as json), detail)
  from asked
 where asked.flush is not null and {FENCE}
returning 1
""")

# All that a case has called outside from a checkpoint until another one: its steps' attempts, which count by where
# they began, and their recorded calls.
# `renewed`: where the last restart gave the case another run, before which the keys of steps are not known any more.
RECORDED = text("""
with mine as (
  select seq - 1 as seq, step, null as name, attempt,
         case kind when 'verify' then 'verified' else 'done' end as outcome, null::uuid as key,
         extract(epoch from at - started_at)::float8 as seconds, cost::text as cost, null as late,
         coalesce(started_at, at) as at
    from keepstep.checkpoints where case_id = :id and kind in ('step', 'verify') and seq > :since and seq <= :until
  union all
  select seq, step, null, attempt, outcome, null, null, cost::text,
         case outcome when 'late' then error::text end, at
    from keepstep.attempts
   where case_id = :id and outcome <> 'deferred' and seq >= :since and seq < :until
  union all
  select seq, step, null, attempt, 'running', null, null, null, null,
         deadline - make_interval(secs => timeout)
    from keepstep.heads where id = :id and status = 'running' and seq >= :since and seq < :until
  union all
  select seq, step, name, attempts, case when done_at is null then 'unfinished' else 'done' end,
         key, extract(epoch from done_at - begun_at)::float8, cost::text, null, begun_at
    from keepstep.calls where case_id = :id and seq >= :since and seq < :until
)
select mine.*,
       seq >= coalesce((select max(seq) from keepstep.checkpoints
                         where case_id = :id and kind = 'rewind' and step = 'restart'), 0) as renewed
  from mine order by at, seq, name nulls first
""")
