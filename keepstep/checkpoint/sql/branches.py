"""Fan-outs: the list, the cases that are made from it by a cursor, the join, and what is left behind.

Lock order: the parent's head; then its children's, of which only those are taken that nobody else has (SKIP LOCKED). A
child that ends holds nothing of its parent: its end is committed first, and the join is tried afterwards, as `deliver`
is: lock the parent's head, then look, in a statement that is younger than the lock.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import ADVANCE, END_CASE, FREE, GRID, guard
from keepstep.checkpoint.sql.signals import GO_ON, LOCKED_HEAD
from keepstep.checkpoint.sql.sweep import NOW

# The step's checkpoint, and with it the whole list. No case of a branch is made yet.
COMMIT_FAN = text(f"""{ADVANCE}, f as (
  insert into keepstep.fans (case_id, seq, shape, into_field, then_target, on_error, max_running, total, kinds)
  select h.id, h.seq, :shape, :into_field, cast(:then_target as json), :on_error, :max_running, :total,
         cast(:kinds as json)
    from h
), b as (
  insert into keepstep.branches (case_id, seq, number, kind, name, thread_id, payload, input)
  select h.id, h.seq, r.number - 1, r.kind, r.name, r.thread_id, cast(r.payload as json), cast(r.input as json)
    from h, unnest(cast(:branch_kinds as smallint[]), cast(:branch_names as text[]), cast(:thread_ids as text[]),
                   cast(:payloads as text[]), cast(:inputs as text[])) with ordinality
              as r (kind, name, thread_id, payload, input, number))
select seq, paused, queue, priority from h""")

_OF = "k.parent = f.case_id and k.parent_seq = f.seq"
_LIVE = f"from keepstep.cases k where {_OF} and k.status is null"
_ALIVE = f"(select count(*) from (select {_LIVE} limit f.max_running) live)"
"""How many of its cases are unfinished; no more are counted than there may be."""

_BAD = f"""case when f.on_error = 'fail' then least(
         (select min(branch) from (select k.branch from keepstep.cases k
                                    where {_OF} and k.status in ('failed', 'cancelled') offset 0) bad),
         (select min(b.number) from keepstep.branches b
           where b.case_id = f.case_id and b.seq = f.seq and b.error is not null)) end"""
"""The first branch that failed, where that fails the case."""

_TO_DO = f"""(case when f.made < f.total then {_ALIVE} < f.max_running else not exists (select {_LIVE}) end
       or {_BAD} is not null)"""
"""Whether others can begin, all have ended, or one has failed the case."""

# Whether the end of a child lets its parent do anything: a batch of others can be made, or all have ended. Asked by
# every child that ends, without a lock, after its own commit: the last of several sees all the others.
WORTH_A_LOOK = text(f"""
select true as worth from keepstep.fans f
 where f.case_id = :parent and f.seq = :parent_seq and f.fate is null
   and ((f.on_error = 'fail' and cast(:failed as boolean))
        or case when f.made < f.total then {_ALIVE} <= f.max_running - greatest(1, f.max_running / 10)
                else not exists (select {_LIVE}) end)
""")

# As LOCK_HEAD of the signals, of a case that nobody else looks at just now: no row if somebody does. Who looks is known
# by this lock of the transaction, and looks again after it, so whoever comes in vain has nothing to wait for.
LOCK_TO_LOOK = text(f"""
with mine as materialized (select pg_try_advisory_xact_lock(:key) as looks)
{LOCKED_HEAD.replace(" where ", " where (select looks from mine) and ")}
""")

# The fan-out that the locked case waits for. bad: the first branch that failed. next: the
# next of the list, as many as there is room for, as JSON; `large`: a first state of which something is stored apart.
FAN = text(f"""
select f.seq, f.shape, f.into_field, f.then_target::text as then_target, f.on_error, f.max_running, f.total, f.made,
       f.kinds::text as kinds, a.alive,
       {_BAD} as bad,
       (select json_agg(json_build_object('number', n.number, 'kind', n.kind, 'name', n.name,
                                          'thread_id', n.thread_id, 'large', n.large) order by n.number) from (
          select b.number, b.kind, b.name, b.thread_id,
                 case when strpos(b.payload::text, '"$blob"') > 0 or octet_length(b.payload::text) >= :large
                      then b.payload::text end as large
            from keepstep.branches b
           where b.case_id = f.case_id and b.seq = f.seq and b.number >= f.made
           order by b.number limit least(:most, f.max_running - a.alive)) n)::text as next
  from keepstep.fans f cross join lateral (select {_ALIVE} as alive) a
 where f.case_id = :id and f.seq = :seq and f.fate is null
""")

# ------------------------------------------------------------------------------------------------------ making cases
# Their cases, with what their messages need. No row for a thread id that is taken. Each branch is read by its own key:
# in a plain join the whole list would be read, for every few cases that there is room for. made: the cursor.
BEAR = text(f"""
with m as (
  update keepstep.fans set made = greatest(made, :made) where case_id = :id and seq = :seq
), r as (
  select * from unnest(cast(:numbers as int[]), cast(:ids as uuid[]), cast(:runs as uuid[]),
                       cast(:thread_ids as text[]), cast(:parked as text[])) as r (number, id, run, thread_id, parked)
), b as (
  select r.number, r.id, r.run, r.thread_id, coalesce(cast(r.parked as json), b.payload) as payload,
         coalesce(b.input, b.payload) as input, kind.*,
         case when kind.pinned then p.queue end as pinned_queue, p.priority
    from keepstep.fans f
    join keepstep.cases p on p.id = f.case_id
   cross join r
   cross join lateral (select * from keepstep.branches b
                        where b.case_id = :id and b.seq = :seq and b.number = r.number limit 1) b
   cross join lateral json_to_record(f.kinds -> b.kind) as kind
         (workflow text, step text, queue text, timeout float8, in_doubt text, heartbeat_timeout float8,
          schema_version int, hooks text[], secrets text[], pinned boolean)
   where f.case_id = :id and f.seq = :seq
), c as (
  insert into keepstep.cases
         (id, run, workflow, thread_id, parent, parent_seq, branch, input, hooks, secrets, queue, priority)
  select b.id, b.run, b.workflow, b.thread_id, :id, :seq, b.number, b.input, b.hooks, b.secrets, b.pinned_queue,
         b.priority
    from b
  on conflict do nothing
  returning id
), h as (
  insert into keepstep.heads
         (id, workflow, seq, status, step, queue, timeout, in_doubt, heartbeat_timeout, schema_version, due_at,
          snapshot_seq, pinned_queue, priority)
  select b.id, b.workflow, 0, 'queued', b.step, coalesce(b.pinned_queue, b.queue), b.timeout, b.in_doubt,
         b.heartbeat_timeout, b.schema_version, {GRID}, 0, b.pinned_queue, b.priority
    from c join b on b.id = c.id
  returning id, seq, queue, step, timeout, workflow, priority
), k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select b.id, 0, 'start', 'start', 'queued', b.step, 0, b.schema_version, true, b.payload from c join b on b.id = c.id
)
select h.*, b.thread_id, b.number from h join b on b.id = h.id order by b.number
""")

# Whose those are that were taken.
TAKEN = text("select id, parent from keepstep.cases where id = any(cast(:ids as uuid[]))")

# There will be no case for this branch.
REFUSE = text("""
update keepstep.branches set error = cast(:error as json) where case_id = :id and seq = :seq and number = :number
""")

# ----------------------------------------------------------------------------------------------------------- the join
CASE_OF_BRANCH = """lateral (
    select k.* from keepstep.cases k
     where k.parent = b.case_id and k.parent_seq = b.seq and k.branch = b.number limit 1)"""
"""The case of a branch `b`, by its own key: in a plain join, all cases of the fan-out would be read for each branch."""

BRANCHES = f"""
select b.number, b.name, b.kind, b.error::text as refused, k.id, k.workflow, k.thread_id, k.status,
       k.error::text as error,
       (select p.schema_version from keepstep.checkpoints p
         where k.status = 'completed' and p.case_id = k.id order by p.seq desc limit 1) as schema_version,
       (select json_agg(json_build_array(p.seq, p.is_snapshot, p.payload) order by p.seq)
          from keepstep.checkpoints p
         where k.status = 'completed' and p.case_id = k.id
           and p.seq >= (select max(s.seq) from keepstep.checkpoints s where s.case_id = k.id and s.is_snapshot)
       )::text as chain
  from keepstep.branches b
  left join {CASE_OF_BRANCH} k on true
 where b.case_id = :id and b.seq = :seq"""
"""The branches of a fan-out, each with its case; of one that has completed, what its state is made of."""

# What all of them came to, in order.
GATHER = text(f"{BRANCHES} order by b.number")

# The one that failed.
ONE = text(f"{BRANCHES} and b.number = :number")

_CLOSE = """f as (
  update keepstep.fans set fate = :fate, closed_at = clock_timestamp() from h where case_id = h.id and fate is null
)"""

_CHECKPOINT = """k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select h.id, h.seq, 'join', :name, :status, :target, 0, :schema_version, :is_snapshot, cast(:payload as json) from h
)"""

_GO_ON = GO_ON.replace(
    "weight = weight + :weight",
    """schema_version = :schema_version, weight = case when :is_snapshot then 0 else weight + :weight end,
         snapshot_seq = case when :is_snapshot then seq + 1 else snapshot_seq end""",
)
"""With the results of a newer version comes the whole state, upcast: a snapshot."""

# The join's own checkpoint, with the results, and the case goes on with the step behind the fan-out.
JOIN = text(f"""
with h as ({_GO_ON}
   where id = :id and seq = :seq and {guard("join")}
  returning id, seq
), {_CLOSE}, {_CHECKPOINT}
select seq from h
""")

# The same when the fan-out was the last step.
JOIN_LAST = text(f"""
with gone as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard("join")} returning id, seq
), h as (select id, seq + 1 as seq from gone), {_CLOSE}, {_CHECKPOINT}, c as (
  {END_CASE.format(h="h", status="'completed'", error="null")})
select seq from h
""")

# A branch failed, and the case with it.
JOIN_FAIL = text(f"""
with h as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard("join")} returning id, seq
), {_CLOSE}, c as ({END_CASE.format(h="h", status="'failed'", error="cast(:error as json)")})
select seq from h
""")

# The results can't be the state's: an operator is asked.
UNFIT = text(f"""
with h as (
  update keepstep.heads set status = 'held', {FREE}, due_at = 'infinity', reason = cast(:error as json)
   where id = :id and seq = :seq and {guard("unfit")}
  returning id, seq
), {_CLOSE}, hook as (
  insert into keepstep.hooks (case_id, event, seq)
  select h.id, 'held', h.seq from h join keepstep.cases k on k.id = h.id where 'held' = any(k.hooks))
select seq from h
""")

# Held because they can't, and mended since: wait for them as before, and have them gathered again.
GATHER_AGAIN = text(f"""
with f as (
  update keepstep.fans set fate = null, closed_at = null where case_id = :id and seq = :seq and fate = 'unfit'
  returning case_id
)
update keepstep.heads set status = 'waiting', reason = null, due_at = clock_timestamp(), entered_at = clock_timestamp()
  from f where id = f.case_id and {guard("retry")}
""")

# ------------------------------------------------------------------------------------------------- what is left behind
# Fan-outs that this case has left.
LEFT_BY = text("""
select seq from keepstep.fans where case_id = :id and fate in ('failed', 'left') and not cleared order by seq
""")

# Cancel unfinished cases of one that was left. Those which fan out themselves leave theirs, in the same statement.
CLEAR = text(f"""
with l as materialized (
  select h.id, h.seq from keepstep.cases k join keepstep.heads h on h.id = k.id
   where k.parent = :id and k.parent_seq = :seq and k.status is null
   order by h.id limit :limit for update of h skip locked
), h as (
  delete from keepstep.heads d using l where d.id = l.id and d.{guard("cancel")} returning d.id, d.seq
), w as (
  update keepstep.waits set fate = 'dropped', closed_at = clock_timestamp() from h where case_id = h.id and fate is null
), f as (
  update keepstep.fans set fate = 'left', closed_at = clock_timestamp() from h where case_id = h.id and fate is null
  returning case_id
), c as ({END_CASE.format(h="h", status="'cancelled'", error="cast(:error as json)")})
select h.id, exists (select from f where f.case_id = h.id) as fans_out from h
""")

# None is left.
CLEARED = text(f"""
update keepstep.fans f set cleared = true
 where f.case_id = :id and f.seq = :seq and not f.cleared and not exists (select {_LIVE})
""")

# ---------------------------------------------------------------------------------------------------------- the sweep
_WAITING = """keepstep.heads h join keepstep.fans f on f.case_id = h.id and f.seq = h.seq and f.fate is null
 where h.status = 'waiting'"""
_LATER = """clock_timestamp() + greatest(interval '5 seconds',
                                             least(interval '5 minutes', clock_timestamp() - entered_at))"""
"""The later, the longer it has been waiting."""

# Cases that are due, and wait for branches of which there is nothing to do: look at them later, many at once.
LOOK_LATER_IDLE = text(f"""
update keepstep.heads set due_at = {_LATER} from (
  select h.id as idle from {_WAITING} and h.due_at <= {NOW} and not {_TO_DO}
   order by h.due_at limit :limit for update of h skip locked) due
 where id = idle
""")

# The others of them.
DUE = text(f"select h.id from {_WAITING} and h.due_at <= {NOW} and {_TO_DO} order by h.due_at limit :limit")

LOOK_LATER = text(f"update keepstep.heads set due_at = {_LATER} where id = :id and seq = :seq and status = 'waiting'")

# All have ended, and this code can't take what came of it: look again later, the later, the longer ago that was.
LEAVE_TO_NEWER = text("""
update keepstep.heads h
   set due_at = clock_timestamp() + greatest(interval '5 seconds', least(interval '5 minutes', clock_timestamp() - (
                  select max(finished_at) from keepstep.cases where parent = :id and parent_seq = :seq)))
 where id = :id and seq = :seq and status = 'waiting'
""")

# The same of one that can't be moved, whatever its seq.
PUT_OFF = text("""
update keepstep.heads set due_at = clock_timestamp() + interval '1 minute' where id = :id and status = 'waiting'
""")

# Those that somebody has died over, though they aren't due.
UNDONE = text(f"select h.id from {_WAITING} and {_TO_DO} order by f.opened_at desc limit :limit")

# Those with cases that are still to be cancelled.
LEFT = text("""
select distinct case_id as id from keepstep.fans where fate in ('failed', 'left') and not cleared limit :limit
""")
