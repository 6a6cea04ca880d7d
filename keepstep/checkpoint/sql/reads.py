"""What people and callers look at. Nothing here changes a row."""

from __future__ import annotations

from sqlalchemy import text

_CASE = """
select k.id, k.workflow, k.thread_id, k.run, k.created_at, k.finished_at, k.error::text as error,
       coalesce(h.status, k.status) as status, coalesce(h.paused, false) as paused,
       h.step, coalesce(h.seq, last.seq) as seq, h.queue, h.attempt, h.failures, h.crashes, h.node_deaths,
       h.reason::text as reason, h.deadline, nullif(h.due_at, 'infinity') as due_at,
       coalesce(h.entered_at, k.finished_at) as since
  from keepstep.cases k
  left join keepstep.heads h on h.id = k.id
  left join lateral (select seq from keepstep.checkpoints c where c.case_id = k.id order by seq desc limit 1) last
         on h.id is null
"""

CASE = text(f"{_CASE} where k.id = :id")

# The checkpoints that a state is put together from, at the latest seq or at an earlier one.
CHAIN = text("""
select json_agg(json_build_array(c.seq, c.is_snapshot, c.payload) order by c.seq)::text as chain
  from keepstep.checkpoints c
 where c.case_id = :id and c.seq <= :seq
   and c.seq >= (select max(seq) from keepstep.checkpoints s where s.case_id = :id and s.seq <= :seq and s.is_snapshot)
""")

# The newest cases first; `before` is the cursor.
LIST = text(f"""{_CASE}
 where (cast(:workflow as text) is null or k.workflow = :workflow)
   and (cast(:status as text) is null or coalesce(h.status, k.status) = :status)
   and (cast(:step as text) is null or h.step = :step)
   and (cast(:before as timestamptz) is null or k.created_at < :before)
 order by k.created_at desc limit :limit
""")

HISTORY = text("""
select seq, kind, step, status, target, attempt, node, schema_version, is_snapshot, started_at, at,
       octet_length(payload::text) as bytes
  from keepstep.checkpoints where case_id = :id order by seq
""")

ATTEMPTS = text("""
select seq, step, attempt, node, outcome, error::text as error, at
  from keepstep.attempts where case_id = :id order by id
""")

SIGNALS = text("""
select name, payload::text as payload, actor, sent_at, consumed_seq, refused
  from keepstep.signals where case_id = :id order by id
""")

OPEN_WAITS = text("""
select name, prompt::text as prompt, payload_schema::text as payload_schema, deadline, opened_at
  from keepstep.waits where case_id = :id and fate is null order by name
""")

COUNTS = text("""
select coalesce(h.status, k.status) as status, count(*) as cases
  from keepstep.cases k left join keepstep.heads h on h.id = k.id
 where cast(:workflow as text) is null or k.workflow = :workflow
 group by 1 order by 1
""")
