"""What people see of fan-outs. Nothing here changes a row."""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.branches import CASE_OF_BRANCH

# A case's fan-outs, each with how many of its cases stand where. `open_only`: the one that it waits for. newest: of an
# open one, the newest version of a result, by the workflow that it is of.
FANS = text("""
select f.seq, f.total, f.made, f.max_running, f.on_error, f.into_field, f.opened_at, f.closed_at, f.fate,
       f.kinds::text as kinds,
       (select count(*) from keepstep.branches b
         where b.case_id = f.case_id and b.seq = f.seq and b.error is not null) as refused,
       (select json_object_agg(s.status, s.cases) from (
          select coalesce(h.status, k.status) as status, count(*) as cases
            from keepstep.cases k left join keepstep.heads h on h.id = k.id
           where k.parent = f.case_id and k.parent_seq = f.seq group by 1) s)::text as counts,
       (select json_object_agg(r.workflow, r.newest) from (
          select k.workflow, max(p.schema_version) as newest from keepstep.cases k, lateral (
            select schema_version from keepstep.checkpoints p where p.case_id = k.id order by p.seq desc limit 1) p
           where f.fate is null and k.parent = f.case_id and k.parent_seq = f.seq and k.status = 'completed'
           group by 1) r)::text as newest
  from keepstep.fans f
 where f.case_id = :id and (f.fate is null or not cast(:open_only as boolean))
 order by f.seq
""")

# The branches of one fan-out, in order, behind the cursor. Without `seq`: of the latest.
BRANCHES = text(f"""
select b.seq, b.number, b.name, k.workflow, k.thread_id, coalesce(h.status, k.status) as status, h.step,
       coalesce(h.reason, k.error, b.error)::text as error
  from keepstep.branches b
  left join {CASE_OF_BRANCH} k on true
  left join keepstep.heads h on h.id = k.id
 where b.case_id = :id and b.number > :after
   and b.seq = coalesce(cast(:seq as int), (select max(seq) from keepstep.fans f where f.case_id = :id))
   and (cast(:status as text) is null or coalesce(h.status, k.status) = :status)
 order by b.number limit :limit
""")
