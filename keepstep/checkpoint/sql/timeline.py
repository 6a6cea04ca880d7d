"""A stretch of a case's past, for a page: each statement reads a bounded number of rows by an index."""

from __future__ import annotations

from sqlalchemy import text

# The checkpoints before a seq, the newest first. `key_read` and `cost` say what the step did outside.
CHECKPOINTS = text("""
select c.seq, c.kind, c.step, c.status, c.target, c.attempt, n.host, c.is_snapshot, c.started_at, c.at, c.back_to,
       octet_length(c.payload::text) as bytes
  from keepstep.checkpoints c left join keepstep.nodes n on n.id = c.node
 where c.case_id = :id and (cast(:before as int) is null or c.seq < :before)
 order by c.seq desc limit :limit
""")

# The attempts that came to nothing, from a seq on.
ATTEMPTS = text("""
select seq, step, attempt, outcome, error::text as error, started_at, at
  from keepstep.attempts
 where case_id = :id and seq >= :since and (cast(:before as int) is null or seq < :before)
 order by seq desc, id desc limit :limit
""")

WAITS = text("""
select seq, name, opened_at, closed_at, fate, deadline
  from keepstep.waits
 where case_id = :id and seq >= :since and (cast(:before as int) is null or seq < :before)
 order by seq desc, name limit :limit
""")

SIGNALS = text("""
select name, payload::text as payload, actor, sent_at, consumed_seq, refused, stream
  from keepstep.signals where case_id = :id order by id desc limit :limit
""")

ACTS = text("""
select verb, actor, reason, detail::text as detail, at
  from keepstep.audit where case_id = :id order by id desc limit :limit
""")

# What a page must be drawn anew for.
VERSION = text("""
select k.run, k.status as ended, h.seq, h.status, h.paused, h.attempt, h.verifications, h.lease, h.step,
       (select max(id) from keepstep.signals s where s.case_id = k.id) as signal,
       (select max(id) from keepstep.audit a where a.case_id = k.id) as act,
       (select max(seq) from keepstep.checkpoints c where c.case_id = k.id) as latest,
       (select json_build_array(f.made, count(*), count(*) filter (where b.status = 'held'))::text
          from keepstep.fans f
          join keepstep.cases c on c.parent = f.case_id and c.parent_seq = f.seq and c.status is null
          join keepstep.heads b on b.id = c.id
         where f.case_id = k.id and f.fate is null group by f.made) as branches
  from keepstep.cases k left join keepstep.heads h on h.id = k.id where k.id = :id
""")

# Which steps the case went through, and where each led: for the picture of its workflow. The newest first.
PATH = text("""
select seq, kind, step, target, status from keepstep.checkpoints where case_id = :id order by seq desc limit :limit
""")

# Where a live case stands now. claimed_at: of the attempt that runs.
NOW = text("""
select clock_timestamp() as now, h.entered_at, h.deadline - make_interval(secs => h.timeout) as claimed_at
  from (select) nothing left join keepstep.heads h on h.id = :id
""")

# Those that are no branches: the page shows these with their fan-out.
CHILDREN = text("""
select k.id, k.workflow, k.thread_id, coalesce(h.status, k.status) as status, h.step
  from keepstep.cases k left join keepstep.heads h on h.id = k.id
 where k.parent = :id and k.branch is null order by k.id limit :limit
""")

PARENT = text("""
select p.id, p.workflow, p.thread_id, coalesce(h.status, p.status) as status, h.step
  from keepstep.cases k join keepstep.cases p on p.id = k.parent left join keepstep.heads h on h.id = p.id
 where k.id = :id
""")
