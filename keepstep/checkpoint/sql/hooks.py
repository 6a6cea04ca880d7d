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

# One of them, for the task that calls it.
ONE = text("""
select o.id, o.case_id, o.event, o.seq, o.name, o.attempts, k.run, k.workflow, k.thread_id
  from keepstep.hooks o join keepstep.cases k on k.id = o.case_id where o.id = :id
""")

DONE = text("delete from keepstep.hooks where id = :id")

FAILED = text("update keepstep.hooks set error = cast(:error as json) where id = :id")
