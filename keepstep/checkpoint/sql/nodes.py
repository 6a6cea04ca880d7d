"""Nodes: the workers' main processes, their heartbeat and their advisory lock."""

from __future__ import annotations

from sqlalchemy import text

# Take the node's lock on this session, for as long as the connection lives.
LOCK = text("select pg_try_advisory_lock(:lock_key)")

# Appear among the nodes, or appear again after having been taken for dead; and say once what code it is.
REGISTER = text("""
with c as (
  insert into keepstep.codes (node, code, keepstep, fingerprints)
  values (:id, :code, :version, cast(:fingerprints as json))
  on conflict (node) do update set until = null
)
insert into keepstep.nodes (id, host, host_id, process, lock_key, queues, workflows, steps, step_queues, pool,
                            concurrency, version)
values (:id, :host, :host_id, :process, :lock_key, cast(:queues as json), cast(:workflows as json),
        cast(:steps as json), cast(:step_queues as json), :pool, :concurrency, :version)
on conflict (id) do nothing
""")

_HOLDS = """exists (select from pg_locks l
               where l.locktype = 'advisory' and l.granted and l.pid = pg_backend_pid() and l.objsubid = 1
                 and l.classid = ((n.lock_key >> 32) & 4294967295)::oid
                 and l.objid = (n.lock_key & 4294967295)::oid)"""

# Say that the node is alive, and whether its own session still holds the lock (through PgBouncer it doesn't).
BEAT = text(f"""
update keepstep.nodes n set beat = beat + 1, lock_works = {_HOLDS}, seen_at = clock_timestamp()
 where id = :id returning beat, lock_works
""")

# All other nodes, as a judge sees them. locked: somebody's session holds the node's lock.
OTHERS = text("""
select n.id, n.host, n.host_id, n.process, n.beat, n.lock_works,
       exists (select from pg_locks l
                where l.locktype = 'advisory' and l.granted and l.objsubid = 1
                  and l.database = (select oid from pg_database where datname = current_database())
                  and l.classid = ((n.lock_key >> 32) & 4294967295)::oid
                  and l.objid = (n.lock_key & 4294967295)::oid) as locked
  from keepstep.nodes n where n.id <> :id limit 10000
""")

# A node that has code for the step.
KNOWS_STEP = text("""
select 1 from keepstep.nodes n, json_array_elements_text(n.steps -> :workflow) s where s = :step limit 1
""")

# A deploy is under way: two living nodes have other versions of one workflow.
MIXED = text("""
select 1 from keepstep.nodes n, json_each_text(n.workflows) w
 group by w.key having count(distinct w.value) > 1 limit 1
""")

# Leave: the node stops in order, or was dead and owns nothing any more.
REMOVE = text("""
with gone as (
  delete from keepstep.nodes n where n.id = any(:ids)
     and not exists (select from keepstep.heads h
                      where h.due_at <= (select clock_timestamp()) + interval '1 minute' and h.owner = n.id)
  returning id
)
update keepstep.codes c set until = clock_timestamp() from gone where c.node = gone.id
""")

# The code of nodes that had gone before the oldest case began: no checkpoint of theirs is left.
FORGET_CODES = text("""
delete from keepstep.codes where node in (
  select node from keepstep.codes
   where until < coalesce((select min(created_at) from keepstep.cases), clock_timestamp()) order by until limit :limit)
""")

# All nodes, for people.
LIST = text("""
select id, host, process, pool, concurrency, version, queues::text as queues, workflows::text as workflows, started_at,
       lock_works,
       extract(epoch from clock_timestamp() - seen_at)::float8 as silent
  from keepstep.nodes order by started_at limit 1000
""")

# What the node has counted of itself since its start.
TELL = text("update keepstep.nodes set tallies = cast(:tallies as json) where id = :id")

# Why a claim was refused a moment ago; no row: the case has ended.
WHY_REFUSED = text("""
select case when seq <> :seq then 'stale' when status = 'running' then 'running' when paused then 'paused'
            when schema_version > coalesce((cast(:known as jsonb) ->> workflow)::int, 0) then 'too_new'
            when status = 'queued' then 'stale' else 'elsewhere' end as reason
  from keepstep.heads where id = :id
""")
