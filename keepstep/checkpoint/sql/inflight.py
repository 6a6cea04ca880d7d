"""Live cases as they are stored, batch by batch: what a deploy has to be able to go on with. Nothing here writes."""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.branches import BRANCHES

# The live cases behind an id, each with all that is needed to load it. Ids are hashes, so those behind a random one are
# a random sample. Signals that were kept for a question that hasn't come yet, if older code than `known` sent them.
BATCH = text("""
select h.id, h.workflow, k.thread_id, h.seq, h.status, h.step, h.queue, h.pinned_queue is not null as is_pinned,
       h.schema_version, h.doubt is not null as in_doubt, k.secrets,
       (select json_agg(json_build_array(p.seq, p.is_snapshot, p.payload) order by p.seq)
          from keepstep.checkpoints p where p.case_id = h.id and p.seq between h.snapshot_seq and h.seq)::text as chain,
       (select json_agg(json_build_object('name', w.name, 'into', w.into_field, 'schema', w.payload_schema,
                                          'then', w.then_target, 'on_timeout', w.on_timeout,
                                          'default', w.default_payload))
          from keepstep.waits w where w.case_id = h.id and w.fate is null)::text as waits,
       (select json_build_object('seq', f.seq, 'shape', f.shape, 'into', f.into_field, 'then', f.then_target,
                                 'on_error', f.on_error, 'kinds', f.kinds, 'made', f.made,
                                 'goes_on', f.made < f.total or exists (
                                   select from keepstep.cases c
                                    where c.parent = f.case_id and c.parent_seq = f.seq and c.status is null))
          from keepstep.fans f where f.case_id = h.id and f.seq = h.seq and f.fate is null)::text as fan,
       (select json_agg(json_build_object('name', s.name, 'version', s.schema_version, 'payload', s.payload))
          from (select * from keepstep.signals s
                 where s.case_id = h.id and s.consumed_seq is null and s.refused is null and s.counted_seq is null
                   and s.schema_version < (cast(:known as jsonb) ->> h.workflow)::int
                 order by s.id limit 100) s)::text as signals
  from keepstep.heads h join keepstep.cases k on k.id = h.id
 where h.id > :after and h.id <= :until
   and (cast(:workflows as text[]) is null or h.workflow = any(cast(:workflows as text[])))
 order by h.id limit :limit
""")

# Of a fan-out's list, what is to begin still, behind a number.
TO_BEGIN = text("""
select number, kind, payload::text as payload from keepstep.branches
 where case_id = :id and seq = :seq and number > :after and error is null order by number limit :limit
""")

# What its branches have come to, behind a number.
ENDED = text(f"{BRANCHES} and b.number > :after and k.status = 'completed' order by b.number limit :limit")

# Whether this is a replica, and how old the newest transaction is that it has, in seconds; null if it doesn't know.
SOURCE = text("""
select pg_is_in_recovery() as is_replica,
       extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8 as behind
""")
