"""How many there are of what, for pages and metrics. Each count stops at a limit, so that none reads a large table."""

from __future__ import annotations

from sqlalchemy import text

# Live cases are in `heads` alone; ended ones are counted in their own index, status by status.
CASES = text("""
select status, paused, count(*) as cases
  from (select status, paused from keepstep.heads
         where cast(:workflow as text) is null or workflow = :workflow limit :live) live
 group by status, paused
union all
select s.status, false, (select count(*) from (select workflow from keepstep.cases k where k.status = s.status
                                                limit :limit) ended
                          where cast(:workflow as text) is null or ended.workflow = :workflow)
  from unnest(array['completed', 'failed', 'cancelled']) s (status)
""")

WORKFLOWS = text("""
with recursive names as (
  (select workflow from keepstep.cases order by workflow limit 1)
  union all
  select (select k.workflow from keepstep.cases k where k.workflow > n.workflow order by k.workflow limit 1)
    from names n where n.workflow is not null
)
select workflow from names where workflow is not null limit :limit
""")

# Which of these ids are cases.
KNOWN = text("select id from keepstep.cases where id = any(:ids)")

NAMES = text("select workflow, thread_id from keepstep.cases where id = :id")
