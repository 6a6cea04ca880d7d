"""What the sweep does: wake, ring again, recover, deliver what a crash left undone, prune.

Each has a limit and SKIP LOCKED, and finds its rows by the coarse index on due_at (busy heads are due within ten
seconds; waiting ones are far off or at infinity, so their number costs nothing).
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import FREE, GRID, QUEUED_DUE, guard
from keepstep.steps.decide import IN_DOUBT

NOW = "(select clock_timestamp())"
"""A sub-select, so that it is asked once and the index can be searched with it: the function alone is volatile."""

RING = """h.id, h.seq, h.queue, h.step, h.timeout, h.workflow, h.priority,
       (select thread_id from keepstep.cases where id = h.id) as thread_id"""

# Somewhere a node is registered that can load the case. Cases that none can load are not rung.
_LOADABLE = """exists (select from keepstep.nodes n
               where (n.workflows ->> h.workflow)::int >= h.schema_version)"""

# Timers and back-offs that are over.
WAKE = text(f"""
update keepstep.heads h set status = 'queued', due_at = {GRID}
  from (select id from keepstep.heads
         where due_at <= {NOW} and {guard("wake")} and not paused
         order by due_at limit :limit for update skip locked) due
 where h.id = due.id
returning {RING}
""")

_UNCLAIMED = f"""due_at <= {NOW} + make_interval(secs => :ahead) and status = 'queued' and not paused"""

# Of the queues that live nodes consume, those with cases which should have been claimed by now, or within `ahead`
# seconds. Asked queue by queue, so that a backlog in one hides no other. The limits are for the planner: it expects a
# hundred queues of each node, and would compile the statement each time; and while statistics still have a backlog due
# that was put off since, it would read all heads for what an index in order tells at once.
OVERDUE_QUEUES = text(f"""
select q.queue from (select distinct json_array_elements_text(queues) as queue from keepstep.nodes limit 1000) q,
       lateral (select from keepstep.heads h where {_UNCLAIMED} and h.queue = q.queue order by due_at limit 1) first
""")

# Ring those again, of the queues that the broker says are empty; those that are due later than in `beyond` seconds.
RING_AGAIN = text(f"""
update keepstep.heads h set due_at = {GRID}
  from (select id from keepstep.heads h
         where {_UNCLAIMED} and queue = any(:queues) and {_LOADABLE}
           and due_at > {NOW} + make_interval(secs => :beyond)
         order by due_at limit :limit for update skip locked) due
 where h.id = due.id
returning {RING}
""")

# While nodes of several versions are alive: queued heads that one of them can't load, and another can. If their queue
# is empty, one that can't has taken their message, and dropped it.
RING_DROPPED = text(f"""
update keepstep.heads h set due_at = {GRID}
  from (select id from keepstep.heads h
         where {_UNCLAIMED} and queue = any(:queues) and {_LOADABLE}
           and exists (select from keepstep.nodes n where (n.workflows ->> h.workflow)::int < h.schema_version)
           and entered_at < {NOW} - interval '1 second'
         order by due_at limit :limit for update skip locked) due
 where h.id = due.id
returning {RING}
""")

# Queued heads that reached their step before the one that the oldest message of their queue names: their own message
# isn't in the queue any more. It was lost with a worker, or one has it in hand; a second one is a cheap no-op. They are
# looked at again much later.
RING_LOST = text(f"""
update keepstep.heads h set due_at = clock_timestamp() + make_interval(secs => :seconds)
  from (select h.id from keepstep.heads h, keepstep.heads oldest
         where oldest.id = :id and oldest.seq = :seq and oldest.status = 'queued'
           and h.due_at <= {NOW} + make_interval(secs => :ahead) and h.status = 'queued' and not h.paused
           and h.queue = oldest.queue and h.priority is not distinct from oldest.priority
           and h.entered_at < oldest.entered_at - interval '5 seconds'
         order by h.due_at limit :limit for update of h skip locked) due
 where h.id = due.id
returning {RING}
""")

# Queued heads whose message waits in a queue that isn't empty, or that nobody reads: look at them much later, so that a
# backlog costs the other looks nothing.
PUT_OFF_BACKLOG = text(f"""
update keepstep.heads h set due_at = clock_timestamp() + make_interval(secs => :seconds)
  from (select id from keepstep.heads
         where {_UNCLAIMED.replace(" + make_interval(secs => :ahead)", "")} and queue <> all(:empty)
         order by due_at limit :limit for update skip locked) due
 where h.id = due.id
""")

# Running heads that were looked at and found in order: look again later.
LOOK_AGAIN = text(f"""
update keepstep.heads h set due_at = {GRID}
  from (select id from keepstep.heads
         where due_at <= {NOW} and status = 'running' limit :limit for update skip locked) due
 where h.id = due.id
""")


def _recover(which: str) -> str:
    """Take running heads away from their attempt: queued again, put aside to be verified, or held by policy, as poison.

    charge: 'crashes', 'node_deaths', 'failures' or '' says which counter it counts on; outcome names it in attempts.
    certain: the attempt has ended, it isn't merely silent. begun: its call may have been made. An attempt that was
    itself a verification (`doubt` is set) is made again.
    """
    return f"""
with l as materialized (
  select h.id, h.lease, h.owner, h.attempt, h.in_doubt, h.doubt, h.crashes, h.node_deaths,
         h.deadline - make_interval(secs => h.timeout) as began from keepstep.heads h
   where h.{guard("recover")} and {which}
   limit :limit for update of h skip locked
), h as (
  update keepstep.heads h
     set status = case when verdict.held is not null then 'held' when begins.doubt then 'sleeping' else 'queued' end,
         doubt = case when begins.doubt then l.lease else h.doubt end,
         crashes = h.crashes + (:charge = 'crashes')::int,
         node_deaths = h.node_deaths + (:charge = 'node_deaths')::int,
         failures = h.failures + (:charge = 'failures')::int,
         {FREE},
         reason = case when verdict.held is not null then json_build_object('why', verdict.held, 'type', :outcome,
                  'message', :message) end,
         due_at = case when verdict.held is not null then 'infinity'
                       when begins.doubt then clock_timestamp() + make_interval(secs => :settling)
                       else {QUEUED_DUE.replace("paused", "h.paused")} end
    from l, lateral (select l.in_doubt <> 'retry' and l.doubt is null and :begun as doubt) begins, lateral (select case
           when begins.doubt and (l.in_doubt = 'hold' or not :certain) then '{IN_DOUBT}'
           when l.crashes + (:charge = 'crashes')::int >= :max_crashes
            and (l.crashes > 0 or (select count(*) from l) = 1) -- else it had company, and is alone the next time
             then 'poison: its process died ' || :max_crashes || ' times'
           when l.node_deaths + (:charge = 'node_deaths')::int >= :max_node_deaths
             then 'its node died ' || :max_node_deaths || ' times' end as held) verdict
   where h.id = l.id
  returning h.*
), a as (
  insert into keepstep.attempts (case_id, seq, step, attempt, lease, node, outcome, error, started_at)
  select h.id, h.seq, h.step, l.attempt, l.lease, l.owner, :outcome, json_build_object('message', :message), l.began
    from h join l on l.id = h.id
), hook as (
  insert into keepstep.hooks (case_id, event, seq)
  select h.id, 'held', h.seq from h join keepstep.cases k on k.id = h.id
   where h.status = 'held' and 'held' = any(k.hooks)
)
select {RING}, h.status, h.paused from h
"""


_BUSY = f"h.due_at <= {NOW} + interval '1 minute'"

# Everything that nodes proven dead were running.
RECOVER_NODES = text(_recover(f"{_BUSY} and h.owner = any(:owners)"))

# What one process of this node was running.
RECOVER_EXECUTOR = text(_recover(f"{_BUSY} and h.owner = :owner and h.executor = :executor"))

# One attempt, known by its lease.
RECOVER_LEASES = text(_recover("h.id = any(:ids) and h.lease = any(:leases)"))

# What is past its step's deadline, or has been silent for too long; the process that runs it had some seconds to say so
# itself.
RECOVER_OVERDUE = text(
    _recover(
        f"h.due_at <= {NOW} and least(h.deadline, h.heartbeat_due) < clock_timestamp() - make_interval(secs => :grace)"
    )
)

# What belongs to a node that isn't registered any more.
RECOVER_UNOWNED = text(
    _recover(f"h.due_at <= {NOW} and not exists (select from keepstep.nodes n where n.id = h.owner)")
)

# What this node is running, as the database sees it: for the self-audit.
RUNNING_HERE = text(f"""
select h.id, h.seq, h.lease, h.executor from keepstep.heads h
 where {_BUSY} and h.status = 'running' and h.owner = :owner limit :limit
""")

# Who runs this case, after a claim was refused: to see whether that process still lives.
WHO_RUNS = text("""
select h.id, h.lease, h.owner, h.executor, n.host_id from keepstep.heads h join keepstep.nodes n on n.id = h.owner
 where h.id = :id and h.seq = :seq and h.status = 'running'
""")

# Waits whose deadline has passed; those for branches are looked at by a statement of their own.
OVERDUE_WAITS = text(f"""
select id from keepstep.heads h
 where due_at <= {NOW} and status = 'waiting'
   and not exists (select from keepstep.fans f where f.case_id = h.id and f.seq = h.seq and f.fate is null)
 order by due_at limit :limit
""")

# A wait that can't be moved, for a reason that its log line tells: look at the others first.
PUT_OFF = text(f"""
update keepstep.heads set due_at = clock_timestamp() + interval '1 minute'
 where id = :id and status = 'waiting' and due_at <= {NOW}
""")

# Waiting cases that have a signal for their open wait: a crash came between the two.
UNDELIVERED = text("""
select h.id from keepstep.signals s
  join keepstep.heads h on h.id = s.case_id
  join keepstep.waits w on w.case_id = h.id and w.name = s.name and w.stream = s.stream and w.fate is null
 where s.consumed_seq is null and s.refused is null and s.counted_seq is null and h.status = 'waiting'
 order by random() limit :limit
""")
