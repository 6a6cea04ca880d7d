"""Signals and waits: lock the head first, then look, in a statement of its own.

A single statement would see a snapshot from before the lock and lose the wake-up (explored in the model).
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import END_CASE, FREE, GRID, guard

# Lock order: the head, then everything else of its case.
LOCK_HEAD = text("""
select h.id, h.workflow, h.seq, h.status, h.step, h.paused, h.due_at <= clock_timestamp() as due, k.thread_id
  from keepstep.heads h join keepstep.cases k on k.id = h.id
 where h.id = :id for update of h
""")

# The open wait of this name, if the case is waiting for it now.
OPEN_WAIT = text("""
select name, into_field, payload_schema::text as payload_schema from keepstep.waits
 where case_id = :id and seq = :seq and name = :name and fate is null
""")

# The signal that was sent under this dedupe key before.
SAME_SIGNAL = text("""
select payload::text as payload from keepstep.signals
 where case_id = :id and name = :name and dedupe_key = :dedupe_key and refused is null
""")

# The decision of this name that came first: consumed, or kept for a wait that hasn't begun.
FIRST_DECISION = text("""
select payload::text as payload, consumed_seq from keepstep.signals
 where case_id = :id and name = :name and refused is null
 order by id desc limit 1
""")

# How the last wait of this name ended, if it did.
LAST_WAIT = text("""
select fate from keepstep.waits where case_id = :id and name = :name order by seq desc limit 1
""")

INSERT = text("""
insert into keepstep.signals (case_id, name, payload, actor, dedupe_key, refused)
values (:id, :name, cast(:payload as json), :actor, :dedupe_key, :refused)
""")

# An open wait of the locked case with the oldest signal that is there for it.
MATCH = text("""
select s.id as signal, s.name, s.payload::text as payload, s.actor,
       w.into_field, w.then_target::text as then_target, w.payload_schema::text as payload_schema
  from keepstep.waits w
  join keepstep.signals s
    on s.case_id = w.case_id and s.name = w.name and s.consumed_seq is null and s.refused is null
 where w.case_id = :id and w.seq = :seq and w.fate is null
 order by s.id limit 1
""")

# Keep a signal that turned out not to fit, and show it; the wait goes on.
REFUSE = text("update keepstep.signals set refused = :why where id = :signal")

_CONSUME = """s as (
  update keepstep.signals set consumed_seq = h.seq from h where keepstep.signals.id = :signal
), w as (
  update keepstep.waits set fate = 'decided', closed_at = clock_timestamp()
    from h where case_id = h.id and keepstep.waits.seq = h.seq - 1 and name = :name and fate is null
), k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select h.id, h.seq, 'signal', :name, :status, :target, 0, h.schema_version, false, cast(:payload as json) from h
)"""

# The signal's own checkpoint, and the case goes on with the step behind the wait. No step runs again.
DELIVER = text(f"""
with h as (
  update keepstep.heads
     set seq = seq + 1, status = 'queued', step = :target, queue = :queue, timeout = :timeout, in_doubt = :in_doubt,
         {FREE}, attempt = 0, due_at = {GRID}, entered_at = clock_timestamp(), weight = weight + :weight
   where id = :id and seq = :seq and {guard("deliver")}
  returning id, seq, schema_version
), {_CONSUME}
select seq from h
""")

# The same when the wait was the last step.
DELIVER_LAST = text(f"""
with gone as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard("deliver")} returning id, seq, schema_version
), h as (select id, seq + 1 as seq, schema_version from gone), {_CONSUME}, c as (
  {END_CASE.format(status="'completed'", error="null")})
select seq from h
""")

# The waits of the locked case whose deadline has passed.
OVERDUE = text("""
select name, on_timeout::text as on_timeout from keepstep.waits
 where case_id = :id and seq = :seq and fate is null and deadline <= clock_timestamp()
 order by deadline limit 1
""")

_CLOSE = """w as (
  update keepstep.waits set fate = 'expired', closed_at = clock_timestamp()
    from h where case_id = h.id and keepstep.waits.seq = :seq and fate is null
)"""

# The deadline's own checkpoint, which changes nothing, and the case goes on with `on_timeout`.
EXPIRE = text(f"""
with h as (
  update keepstep.heads
     set seq = seq + 1, status = 'queued', step = :target, queue = :queue, timeout = :timeout, in_doubt = :in_doubt,
         attempt = 0, due_at = {GRID}, entered_at = clock_timestamp(), weight = weight + :weight
   where id = :id and seq = :seq and {guard("expire")}
  returning id, seq, schema_version
), {_CLOSE}, k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select h.id, h.seq, 'timeout', :name, 'queued', :target, 0, h.schema_version, false, '[]' from h
)
select seq from h
""")

# The deadline leads nowhere: the case has failed.
EXPIRE_FAIL = text(f"""
with h as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard("expire")} returning id, seq
), {_CLOSE}, c as ({END_CASE.format(status="'failed'", error="cast(:error as json)")})
select seq from h
""")
