"""What waits in which queue, and for how long: for people, metrics and autoscalers. Nothing here changes a row."""

from __future__ import annotations

from sqlalchemy import text

# Queued heads by queue, by the index on what is due: paused ones and those that wait for people are not in its range.
# How long the oldest has been waiting counts from when it came to its step.
QUEUED = text("""
select queue, count(*) filter (where status = 'queued') as queued,
       count(*) filter (where status = 'running') as running,
       extract(epoch from clock_timestamp() - min(entered_at) filter (where status = 'queued'))::float8 as oldest
  from keepstep.heads
 where due_at < 'infinity' and status in ('queued', 'running') and not (paused and status = 'queued')
 group by queue order by queue limit 1000
""")

# Steps that began lately, with how long each waited from the commit that made it ready until its claim. The queue is
# the case's own, else what the code of the node that ran it says.
_BEGUN = """
select k.workflow, c.step, coalesce(k.queue, n.step_queues -> k.workflow ->> c.step, '') as queue,
       greatest(0, extract(epoch from c.started_at - p.at))::float8 as waited,
       extract(epoch from c.at - c.started_at)::float8 as took, octet_length(c.payload::text) as bytes, c.attempt,
       c.status, p.status as before
  from keepstep.checkpoints c
  join keepstep.checkpoints p on p.case_id = c.case_id and p.seq = c.seq - 1
  join keepstep.cases k on k.id = c.case_id
  left join keepstep.nodes n on n.id = c.node
 where c.kind in ('step', 'verify')"""

WAITS = text(f"""
select queue, count(*) as steps, percentile_cont(0.5) within group (order by waited) as median,
       percentile_cont(0.95) within group (order by waited) as slow
  from ({_BEGUN} and c.at >= clock_timestamp() - make_interval(secs => :seconds)) b
 where attempt = 1 and before = 'queued'
 group by queue limit 1000
""")

# The same between two instants, counted into buckets: for the exporter of metrics.
CLOCK = text("select clock_timestamp() - make_interval(secs => :settled) as until")

STEPS = text(f"""
select workflow, step, count(*) as steps, sum(took) as took, sum(bytes) as bytes,
       count(*) filter (where status = 'completed') as completed,
       width_bucket(took, cast(:took as float8[])) as bucket,
       width_bucket(bytes::float8, cast(:bytes as float8[])) as bytes_bucket
  from ({_BEGUN} and c.at >= :since and c.at < :until) b
 group by workflow, step, bucket, bytes_bucket limit 100000
""")

WAITED = text(f"""
select queue, count(*) as steps, sum(waited) as waited, width_bucket(waited, cast(:waited as float8[])) as bucket
  from ({_BEGUN} and c.at >= :since and c.at < :until) b
 where attempt = 1 and before = 'queued'
 group by queue, bucket limit 100000
""")

ATTEMPTS = text("""
select k.workflow, a.outcome, count(*) as attempts
  from keepstep.attempts a join keepstep.cases k on k.id = a.case_id
 where a.at >= :since and a.at < :until
 group by k.workflow, a.outcome limit 100000
""")

# By how much the sweep is behind: heads that should have been looked at. A little is usual: it looks once a second.
LAG = text("""
select coalesce(extract(epoch from clock_timestamp() - min(due_at)), 0)::float8 as lag, count(*) as overdue
  from (select due_at from keepstep.heads where due_at <= (select clock_timestamp()) order by due_at limit 10000) due
""")

# How long the case has waited that somebody has been asked about first.
OLDEST_WAIT = text("""
select extract(epoch from clock_timestamp() - opened_at)::float8 as oldest
  from keepstep.waits where fate is null order by opened_at limit 1
""")

TALLIES = text("select id, tallies::text as tallies from keepstep.nodes order by id limit 10000")
