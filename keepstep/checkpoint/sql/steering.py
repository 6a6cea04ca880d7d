"""What operators do: cancel, pause, resume, retry, skip, rewind, restart, fork. Each verb is one transaction.

Lock order: the head first, then everything else of its case. A case that has ended has no head: its own row is locked
instead, and a verb that revives it first gives it a head again, held, which nobody else sees before the verb is done.
Every statement that moves a head clears its lease, so what a worker brings afterwards comes late.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import ANEW, END_CASE, FREE, GRID, QUEUED_DUE, guard
from keepstep.checkpoint.sql.sweep import RING
from keepstep.checkpoint.tables import waits

# A live case, locked.
LOCK_HEAD = text("""
select h.id, h.workflow, k.thread_id, h.seq, h.status, h.paused, h.step, h.queue, h.timeout, h.in_doubt,
       h.heartbeat_timeout, h.schema_version, true as live
  from keepstep.heads h join keepstep.cases k on k.id = h.id
 where h.id = :id for update of h
""")

# A case that has ended, locked. Asked after LOCK_HEAD found none. No row: it is alive again, or doesn't exist.
LOCK_ENDED = text("""
select k.id, k.workflow, k.thread_id, last.seq, k.status, false as paused, null as step, last.schema_version,
       false as live
  from keepstep.cases k,
       lateral (select seq, schema_version from keepstep.checkpoints c where c.case_id = k.id order by seq desc limit 1
       ) last
 where k.id = :id and k.status is not null for update of k
""")

KNOWN = text("select 1 from keepstep.cases where id = :id")


def _revive(move: str) -> str:
    """Give an ended case a head at its last checkpoint again, held, for the statement that follows in the transaction.

    Attempts go on counting, for people.
    """
    return f"""
with k as (
  update keepstep.cases set status = null, finished_at = null, expires_at = null, error = null
   where id = :id and {guard(move)} returning id, workflow, queue, priority
)
insert into keepstep.heads
       (id, workflow, seq, status, step, queue, timeout, in_doubt, heartbeat_timeout, schema_version, attempt, due_at,
        reason, snapshot_seq, weight, pinned_queue, priority)
select k.id, k.workflow, :seq, 'held', :target, coalesce(k.queue, :queue), :timeout, :in_doubt,
       cast(:heartbeat_timeout as float8), :schema_version,
       coalesce((select max(attempt) from keepstep.attempts where case_id = k.id and seq = :seq), 0),
       'infinity', json_build_object('why', 'an operator revives it'), last.seq,
       (select coalesce(sum(octet_length(payload::text) + :overhead), 0)
          from keepstep.checkpoints where case_id = k.id and seq > last.seq), k.queue, k.priority
  from k, lateral (select max(seq) as seq from keepstep.checkpoints where case_id = k.id and is_snapshot) last
"""


def _place(move: str) -> str:
    """Put the case before another step, by a new seq, whose checkpoint is a snapshot."""
    return f"""
update keepstep.heads
   set seq = seq + 1, status = :status, step = :target, queue = coalesce(pinned_queue, :queue), timeout = :timeout,
       in_doubt = :in_doubt, heartbeat_timeout = :heartbeat_timeout, schema_version = :schema_version, {FREE}, {ANEW},
       due_at = case :status when 'queued' then {QUEUED_DUE} else 'infinity' end, entered_at = clock_timestamp(),
       snapshot_seq = seq + 1, weight = 0
 where id = :id and seq = :seq and {guard(move)}
returning seq
"""


def _end(move: str, status: str, seq: str) -> str:
    """The case ends by an operator's word; its head goes."""
    return f"""
with h as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard(move)} returning id, {seq} as seq
), c as ({END_CASE.format(h="h", status=f"'{status}'", error="null")})
select id from h
"""


REVIVING = ("retry", "retry_anew", "skip", "rewind", "restart")
PLACING = ("retry_anew", "skip", "rewind", "restart")

# By move: revive an ended case; put it elsewhere; end it.
REVIVE = {move: text(_revive(move)) for move in REVIVING}
PLACE = {move: text(_place(move)) for move in PLACING}
END = {"cancel": text(_end("cancel", "cancelled", "seq")), "skip": text(_end("skip", "completed", "seq + 1"))}

# The same step again, under the same key, with fresh counters.
RETRY = text(f"""
update keepstep.heads
   set status = 'queued', failures = 0, crashes = 0, node_deaths = 0, deferrals = 0, verifications = 0, doubt = null,
       reason = null, due_at = {QUEUED_DUE}, entered_at = clock_timestamp()
 where id = :id and {guard("retry")}
returning seq
""")

# Neither claimed nor rung from now on. What runs goes on, timers and deadlines too.
PAUSE = text("""
update keepstep.heads set paused = true, due_at = case status when 'queued' then 'infinity' else due_at end
 where id = :id and not paused returning seq
""")

RESUME = text(f"""
update keepstep.heads set paused = false, due_at = case status when 'queued' then {GRID} else due_at end
 where id = :id and paused returning seq
""")

# The snapshot that a verb writes.
CHECKPOINT = text("""
insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                  payload, back_to)
values (:id, :new_seq, :kind, :by, :status, :target, 0, :schema_version, true, cast(:payload as json), :back_to)
""")

# Where the case stood after checkpoint `seq`: the next step, or the step that asked what it then waited for.
POSITION = text("""
select c.status, c.schema_version,
       case c.status when 'waiting' then (
         select coalesce(a.target, a.step) from keepstep.checkpoints a
          where a.case_id = c.case_id
            and a.seq = greatest(
                  (select max(w.seq) from keepstep.waits w where w.case_id = c.case_id and w.seq <= c.seq),
                  (select max(f.seq) from keepstep.fans f where f.case_id = c.case_id and f.seq <= c.seq)))
       else c.target end as step
  from keepstep.checkpoints c where c.case_id = :id and c.seq = :seq
""")

# Steps whose code ran from checkpoint `after` on, as far as anybody knows, with the seq that is in their keys; of
# branches, the seq that fanned out.
EFFECTS = text("""
select seq, step from (
  select seq - 1 as seq, step from keepstep.checkpoints where case_id = :id and kind = 'step' and seq > :after
  union
  select seq, step from keepstep.attempts where case_id = :id and seq >= :after and outcome <> 'deferred'
  union
  select seq, step from keepstep.heads where id = :id and seq >= :after and attempt > 0
  union
  select f.seq, f.kinds -> b.kind ->> 'name' from keepstep.fans f
    join keepstep.branches b on b.case_id = f.case_id and b.seq = f.seq and b.number < f.made
   where f.case_id = :id and f.seq >= :after
) ran order by seq, step
""")

# Where the case would go on from what it waits for, or from what it failed to be told in time.
THEN = text("""
select w.name, w.then_target::text as then_target from keepstep.waits w,
       lateral (select max(seq) as seq, bool_or(fate is null) as still from keepstep.waits
                 where case_id = :id and seq = (select max(seq) from keepstep.waits where case_id = :id)) last
 where w.case_id = :id and w.seq = last.seq and case when last.still then w.fate is null else w.fate = 'expired' end
 order by w.name
""")

# Where the case would go on from the branches that it waits for, or that failed it.
THEN_OF_BRANCHES = text("""
select then_target::text as then_target from keepstep.fans where case_id = :id and seq = :seq
""")

# The case goes elsewhere, or ends: its branches are left, and cancelled afterwards.
LEAVE_BRANCHES = text("""
update keepstep.fans set fate = 'left', closed_at = clock_timestamp() where case_id = :id and fate is null
""")

# Nobody's decision can meet them any more.
DROP_WAITS = text("""
update keepstep.waits set fate = 'dropped', closed_at = clock_timestamp() where case_id = :id and fate is null
""")

# What was sent for a past that is left, and not used, will not be. The dedupe keys of what is undone are free again, or
# what is sent anew would be taken for a repetition.
REFUSE_SIGNALS = text("""
update keepstep.signals
   set refused = case when consumed_seq is null then :why else refused end,
       dedupe_key = case when consumed_seq is null then dedupe_key end
 where case_id = :id and ((consumed_seq is null and refused is null) or (consumed_seq > :to and dedupe_key is not null))
""")

_COPIED = ", ".join(
    column.name
    for column in waits.columns
    if column.name not in ("case_id", "seq", "deadline", "remind_at", "opened_at", "closed_at", "fate")
)

# Ask again what case `source` was waiting for after its checkpoint `at`, with the whole time that there was. What was
# answered by then, by a signal or a deadline's default, has a checkpoint of its own.
REOPEN_WAITS = text(f"""
with w as (
  insert into keepstep.waits (case_id, seq, deadline, remind_at, {_COPIED})
  select :id, :new_seq, clock_timestamp() + (deadline - opened_at),
         clock_timestamp() + make_interval(secs => remind_every), {_COPIED} from keepstep.waits w
   where case_id = :source and not exists (
           select from keepstep.checkpoints c where c.case_id = w.case_id and c.seq > w.seq and c.seq <= :at
              and c.kind in ('signal', 'timeout') and c.step = w.name)
     and seq = (select max(seq) from keepstep.waits where case_id = :source and seq <= :at)
  returning deadline, remind_at
)
update keepstep.heads set due_at = coalesce((select min(least(deadline, remind_at)) from w), 'infinity')
 where id = :id
""")

# Work off the list again that case `source` had at checkpoint `at`, from its beginning: by other cases, under new keys.
REOPEN_FAN = text("""
with f as (
  insert into keepstep.fans (case_id, seq, shape, into_field, then_target, on_error, max_running, total, kinds)
  select :id, :new_seq, shape, into_field, then_target, on_error, max_running, total, kinds
    from keepstep.fans where case_id = :source and seq = :at
  returning case_id, seq
), b as (
  insert into keepstep.branches (case_id, seq, number, kind, name, thread_id, payload, input)
  select f.case_id, f.seq, b.number, b.kind, b.name, b.thread_id, b.payload, b.input
    from f, keepstep.branches b where b.case_id = :source and b.seq = :at
)
update keepstep.heads h set due_at = clock_timestamp() + make_interval(secs => :seconds)
  from f where h.id = f.case_id
""")

# What a case was started with.
INPUT = text("select input::text as input from keepstep.cases where id = :id")

# The checkpoint that it began with, by a start or a restart; of a fork, the fork's. target: the step behind it.
BEGAN = text("""
select seq, kind, schema_version, target from keepstep.checkpoints
 where case_id = :id and (kind in ('start', 'fork') or (kind = 'rewind' and back_to = -1)) order by seq desc limit 1
""")

# Another incarnation: other keys, other input if there is one, and what today's code says of a case.
RENEW_RUN = text("""
update keepstep.cases
   set run = :run, input = coalesce(cast(:input as json), input), retention = cast(:retention as jsonb),
       secrets = cast(:secrets as text[]), hooks = cast(:hooks as text[])
 where id = :id
""")

# A case of its own, from a checkpoint of another. No row: the thread id is taken.
FORK_CASE = text("""
insert into keepstep.cases (id, run, workflow, thread_id, tags, input, retention, secrets, hooks, queue,
                            priority)
select :id, :run, workflow, :thread_id, tags, input, retention, secrets, hooks, queue, priority
  from keepstep.cases where id = :source
on conflict do nothing returning id
""")

FORK_HEAD = text(f"""
insert into keepstep.heads (id, workflow, seq, status, step, queue, timeout, in_doubt, heartbeat_timeout,
                            schema_version, due_at, snapshot_seq, pinned_queue, priority)
select :id, k.workflow, 0, :status, :target, coalesce(k.queue, :queue), :timeout, :in_doubt,
       cast(:heartbeat_timeout as float8), :schema_version,
       case :status when 'queued' then {GRID} else 'infinity' end, 0, k.queue, k.priority
  from keepstep.cases k where k.id = :source
""")

# Who did it, and why.
AUDIT = text("""
insert into keepstep.audit (case_id, verb, actor, reason, detail)
values (:id, :verb, :actor, :reason, cast(:detail as json))
""")

# The message for the step that comes next, if it is to run now.
READY = text(f"select {RING} from keepstep.heads h where h.id = :id and h.status = 'queued' and not h.paused")

# What operators did to a case, for its history.
HISTORY = text("""
select verb, actor, reason, detail::text as detail, at from keepstep.audit where case_id = :id order by id
""")
