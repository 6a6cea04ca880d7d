"""What people and callers look at. Nothing here changes a row."""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.sweep import RING

_CASE = """
select k.id, k.workflow, k.thread_id, k.run, k.created_at, k.finished_at, k.error::text as error,
       k.tags::text as tags,
       coalesce(h.status, k.status) as status, coalesce(h.paused, false) as paused,
       h.step, coalesce(h.seq, last.seq) as seq, h.queue, h.priority, h.attempt, h.failures, h.crashes, h.node_deaths,
       h.reason::text as reason, h.deadline, nullif(h.due_at, 'infinity') as due_at,
       coalesce(h.entered_at, k.finished_at) as since,
       (select json_build_array(p.workflow, p.thread_id) from keepstep.cases p where p.id = k.parent)::text as parent
  from keepstep.cases k
  left join keepstep.heads h on h.id = k.id
  left join lateral (select seq from keepstep.checkpoints c where c.case_id = k.id order by seq desc limit 1) last
         on h.id is null
"""

CASE = text(f"{_CASE} where k.id = :id")

# What a case that has ended was a branch of.
ENDED_BRANCH = text("""
select parent, parent_seq, status from keepstep.cases where id = :id and parent is not null and status is not null
""")

# The checkpoints that a state is put together from, at the latest seq or at an earlier one.
CHAIN = text("""
select json_agg(json_build_array(c.seq, c.is_snapshot, c.payload) order by c.seq)::text as chain
  from keepstep.checkpoints c
 where c.case_id = :id and c.seq <= :seq
   and c.seq >= (select max(seq) from keepstep.checkpoints s where s.case_id = :id and s.seq <= :seq and s.is_snapshot)
""")

# A rewind's checkpoint stays when those around it are folded.
OLDEST = text("""
select seq from keepstep.checkpoints where case_id = :id and back_to is null order by seq limit 1
""")

# How much there is to read for it, large values included, if it names any.
CHAIN_BYTES = text("""
select sum(octet_length(c.payload::text))
       + case when bool_or(strpos(c.payload::text, '"$blob"') > 0)
              then (select coalesce(sum(octet_length(value::text)), 0) from keepstep.blobs b where b.case_id = :id)
              else 0 end
  from keepstep.checkpoints c
 where c.case_id = :id and c.seq <= :seq
   and c.seq >= (select max(seq) from keepstep.checkpoints s where s.case_id = :id and s.seq <= :seq and s.is_snapshot)
""")

# The newest cases first, behind the cursor. The values come as literals, so the planner sees only the filters that are
# given: by a final status an index leads to the cases; live ones are read from `heads`, which has no index on status
# on purpose (see invariant 7 in ARCHITECTURE.md), and holds live cases only.
LIST = text(f"""{_CASE}
 where (cast(:workflow as text) is null or k.workflow = :workflow)
   and (cast(:live as text[]) is null or h.status = any(cast(:live as text[])))
   and (cast(:ended as text) is null or k.status = :ended)
   and (cast(:statuses as text[]) is null or coalesce(h.status, k.status) = any(cast(:statuses as text[])))
   and (cast(:step as text) is null or h.step = :step)
   and (cast(:parent as uuid) is null or k.parent = cast(:parent as uuid))
   and (cast(:tags as jsonb) is null or k.tags @> cast(:tags as jsonb))
   and (cast(:older as float8) is null
        or coalesce(h.entered_at, k.finished_at) < clock_timestamp() - make_interval(secs => :older))
   and (cast(:error as text) is null or h.reason::text ilike :error or k.error::text ilike :error)
   and (cast(:begins as text) is null or k.thread_id like :begins)
   and (cast(:cursor_at as timestamptz) is null
        or (k.created_at, k.id) < (cast(:cursor_at as timestamptz), cast(:cursor_id as uuid)))
 order by k.created_at desc, k.id desc limit :limit
""")

# How often a case's steps of these names ran behind checkpoint `after`, or behind the last rewind. let_on: it was held
# at this very checkpoint, and an operator let it go on.
VISITS = text("""
select back.since, (
         select count(*) from keepstep.checkpoints c
          where c.case_id = :id and c.seq > back.since and c.seq <= :seq and c.kind in ('step', 'verify')
            and c.step = any(cast(:steps as text[]))) as visits,
       exists (select from keepstep.attempts a where a.case_id = :id and a.seq = :seq and a.outcome = 'held') as let_on
  from (select greatest(:after, coalesce(max(seq), 0)) as since
          from keepstep.checkpoints where case_id = :id and back_to is not null) back
""")

# The messages of those cases that wait for a worker now.
QUEUED = text(f"""
select {RING} from keepstep.heads h where h.id = any(:ids) and h.status = 'queued' and not h.paused
""")

# What else there is to know about where a live case stands, by the database's clock.
STANDING = text("""
select clock_timestamp() as now, h.deadline, h.schema_version, n.host, n.process,
       extract(epoch from clock_timestamp() - n.seen_at)::float8 as silent,
       p.actor as paused_by, p.reason as paused_why, p.at as paused_at, h.doubt is not null as in_doubt,
       (select array_agg(c.step || '#' || c.seq - 1 order by c.seq) from keepstep.checkpoints c
         where c.case_id = :id and c.kind = 'step' and c.attempt > 1 and not c.key_read) as unkeyed
  from (select) nothing
  left join keepstep.heads h on h.id = :id
  left join keepstep.nodes n on n.id = h.owner
  left join lateral (select actor, reason, at from keepstep.audit
                      where case_id = :id and verb = 'pause' and h.paused order by id desc limit 1) p on true
""")

HISTORY = text("""
select p.seq, p.kind, p.step, p.status, p.target, p.attempt, p.node, p.schema_version, p.is_snapshot, p.started_at,
       p.at, octet_length(p.payload::text) as bytes, c.code, c.keepstep, c.fingerprints ->> k.workflow as fingerprint
  from keepstep.checkpoints p join keepstep.cases k on k.id = p.case_id left join keepstep.codes c on c.node = p.node
 where p.case_id = :id order by p.seq
""")

# Which code wrote the latest checkpoint that a worker wrote.
WRITTEN_BY = text("""
select p.schema_version, c.code, c.keepstep, c.fingerprints ->> k.workflow as fingerprint
  from keepstep.checkpoints p join keepstep.cases k on k.id = p.case_id left join keepstep.codes c on c.node = p.node
 where p.case_id = :id order by p.seq desc limit 1
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
select name, prompt::text as prompt, payload_schema::text as payload_schema, deadline, opened_at, stream, approvers,
       digest
  from keepstep.waits where case_id = :id and fate is null order by name
""")

COUNTS = text("""
select coalesce(h.status, k.status) as status, count(*) as cases
  from keepstep.cases k left join keepstep.heads h on h.id = k.id
 where cast(:workflow as text) is null or k.workflow = :workflow
 group by 1 order by 1
""")
