"""Hooks that have to be called. The rows are made by the statements that end or hold a case."""

from __future__ import annotations

from sqlalchemy import text

# Hooks that are due, of workflows that this node knows; put off meanwhile, longer after each attempt.
DUE = text("""
update keepstep.hooks o
   set attempts = o.attempts + 1,
       due_at = clock_timestamp() + make_interval(secs => least(3600, 60 * power(2, least(o.attempts, 10))))
  from (select o.id, k.workflow, k.thread_id
          from keepstep.hooks o join keepstep.cases k on k.id = o.case_id
         where o.due_at <= (select clock_timestamp()) and k.workflow = any(:workflows)
         order by o.due_at limit :limit for update of o skip locked) due
 where o.id = due.id
returning o.id, o.event, due.workflow, due.thread_id
""")

# One of them, for the task that calls it. Why it happened is with the case as long as that stands there (see
# KEEP_REASON), or, if the attempt that it was held for has come back late, with that attempt.
ONE = text("""
select o.id, o.case_id, o.event, o.seq, o.key, o.name, o.attempts, k.workflow, k.thread_id,
       coalesce(o.detail, case o.event
         when 'failed' then k.error
         when 'held' then coalesce(h.reason, (select error from keepstep.attempts a
                                               where a.case_id = o.case_id and a.seq = o.seq order by id desc limit 1))
         end)::text as detail
  from keepstep.hooks o
  join keepstep.cases k on k.id = o.case_id
  left join keepstep.heads h on h.id = o.case_id and h.seq = o.seq and h.status = 'held'
 where o.id = :id
""")

# The locked case is moved on, or revived: why it was held, or had failed, stays with the hooks that are still to be
# called.
KEEP_REASON = text("""
update keepstep.hooks
   set detail = coalesce((select reason from keepstep.heads where id = :id),
                         (select error from keepstep.cases where id = :id))
 where case_id = :id and event = :event and detail is null
""")

# Who cancelled the case, and why.
SAY_WHO = text("""
update keepstep.hooks set detail = cast(:detail as json)
 where case_id = :id and event = 'cancelled' and detail is null
""")

DONE = text("delete from keepstep.hooks where id = :id")

FAILED = text("update keepstep.hooks set error = cast(:error as json) where id = :id")

# It could not be called at all, which is no fault of its own: soon again, and not counted.
PUT_BACK = text("""
update keepstep.hooks
   set attempts = greatest(0, attempts - 1), due_at = clock_timestamp() + make_interval(secs => :seconds)
 where id = any(:ids)
""")
