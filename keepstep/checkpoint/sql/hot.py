"""The statements of a step: claim, commit, and the other ways for an attempt to end.

Every statement after the claim is fenced by the lease together with `status = 'running'`: no row means that the
attempt has lost its lease and that nothing was written.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.steps.moves import sources

GRID = "(date_bin('5 seconds', clock_timestamp(), timestamptz '2000-01-01Z') + interval '10 seconds')"
"""When the sweep looks at a busy head again: 5 to 10 s from now, the same instant for all moves of five seconds.

due_at is the only indexed column that changes, so almost every update of a head stays HOT.
"""

QUEUED_DUE = f"case when paused then 'infinity' else {GRID} end"
"""When a head that becomes queued is due: a paused one never, until it is resumed."""

FREE = "lease = null, owner = null, executor = null, deadline = null, heartbeat_due = null"

ANEW = """attempt = 0, failures = 0, crashes = 0, node_deaths = 0, deferrals = 0, verifications = 0, doubt = null,
         detail = null, reason = null"""
"""A step begins: nothing is counted yet, nothing is in doubt."""

LEASED = """deadline = clock_timestamp() + make_interval(secs => h.timeout),
         heartbeat_due = clock_timestamp() + make_interval(secs => h.heartbeat_timeout)"""


def guard(move: str) -> str:
    """The SQL condition that the head's status is one from which the move is legal."""
    return f"status in ({', '.join(repr(s) for s in sources(move))})"


FENCE = f"id = :id and lease = :lease and {guard('advance')}"

CLAIMED = """
select c.id, c.seq, c.step, c.queue, c.pinned_queue, c.timeout, c.in_doubt, c.attempt, c.failures, c.deferrals,
       c.verifications, c.doubt, c.detail::text as detail, c.schema_version, c.snapshot_seq, c.weight, c.deadline,
       extract(epoch from clock_timestamp() - c.entered_at)::float8 as elapsed,
       k.workflow, k.thread_id, k.run, k.parent, k.parent_seq,
       (select json_agg(json_build_array(p.seq, p.is_snapshot, p.payload) order by p.seq)
          from keepstep.checkpoints p
         where p.case_id = c.id and p.seq between c.snapshot_seq and c.seq)::text as chain
  from claimed c join keepstep.cases k on k.id = c.id
"""
"""What a step needs of its head, its case and its checkpoints, after a CTE `claimed`."""

# Take the lease of a queued case and load what its step needs. Repeated with the same lease, it recognises itself.
# Without a durable flush where losing the claim does no harm (policy "retry"): `asked` sets that for this transaction,
# and the update refers to it, or PostgreSQL would not run it.
CLAIM = text(f"""
with asked as materialized (
  select id, set_config('synchronous_commit',
                        case in_doubt when 'retry' then 'off' else current_setting('synchronous_commit') end,
                        true) as flush, cast(:known as jsonb) as known
    from keepstep.heads where id = :id
), claimed as (
  update keepstep.heads h
     set status = 'running', lease = :lease, owner = :owner, executor = :executor,
         attempt = h.attempt + case when h.lease is null then 1 else 0 end, {LEASED}, due_at = {GRID}
    from asked
   where h.id = asked.id and asked.flush is not null
     and h.seq = :seq
     and (({guard("claim")} and not h.paused) or (status = 'running' and lease = :lease))
     and h.schema_version <= (asked.known ->> h.workflow)::int
  returning h.*
){CLAIMED}""")

# A late worker takes the lease again, its own one: only if nobody else has claimed the case since, in the same run, or
# if the case is held, or waits to be verified, because of this very attempt. Repeated, it recognises itself.
CLAIM_AGAIN = text(f"""
update keepstep.heads h
   set status = 'running', lease = :lease, owner = :owner, executor = :executor, attempt = h.attempt + 1,
       doubt = null, reason = null, {LEASED}, due_at = {GRID}
  from keepstep.cases k
 where h.id = :id and h.seq = :seq and k.id = h.id and k.run = :run
   and ((h.{guard("claim")} and h.doubt is null) or (h.{guard("resolve")} and h.doubt = :lease)
        or (h.status = 'running' and h.lease = :lease))
""")

# The code that is about to call wants another policy than the head was given: before the call, and durably.
TIGHTEN = text(f"update keepstep.heads set in_doubt = :in_doubt where {FENCE}")

CHECKPOINT = """
insert into keepstep.checkpoints
       (case_id, seq, kind, step, status, target, lease, attempt, node, schema_version, is_snapshot, payload,
        key_read, cost, started_at)
select h.id, h.seq, :kind, :ran, :status, :target, :lease, :attempt, :owner, :schema_version, :is_snapshot,
       cast(:payload as json), :key_read, cast(:cost as json), clock_timestamp() - make_interval(secs => :took)
  from h"""

ADVANCED = f"""seq = seq + 1, status = :status, step = coalesce(:target, step),
         queue = coalesce(pinned_queue, :queue, queue),
         timeout = coalesce(:timeout, timeout), in_doubt = coalesce(:in_doubt, in_doubt),
         heartbeat_timeout = cast(:heartbeat_timeout as float8), schema_version = :schema_version, {FREE}, {ANEW},
         due_at = case :status when 'queued' then {QUEUED_DUE}
                               else coalesce(cast(:until as timestamptz),
                                             clock_timestamp() + make_interval(secs => :delay), 'infinity') end,
         entered_at = clock_timestamp(),
         snapshot_seq = case when :is_snapshot then seq + 1 else snapshot_seq end, weight = :weight"""
"""How a head moves on to its next step, to a timer or to a wait, as assignments."""

ADVANCE = f"""
with h as (
  update keepstep.heads
     set {ADVANCED}
   where {FENCE}
  returning id, seq, paused, queue, priority
), k as ({CHECKPOINT})"""

# Write the checkpoint and move the head on to the next step (queued), or to a timer (sleeping).
COMMIT = text(f"{ADVANCE} select seq, paused, queue, priority from h")


def gone_on(takes: str) -> str:
    """How a head goes on to its next step, as assignments. takes: whether the lease of that is taken, too."""
    return f"""seq = seq + 1, status = case when {takes} then 'running' else 'queued' end, step = :target,
         queue = coalesce(pinned_queue, :queue), timeout = :timeout, in_doubt = :in_doubt,
         heartbeat_timeout = cast(:heartbeat_timeout as float8), schema_version = :schema_version,
         {ANEW.replace("attempt = 0", f"attempt = case when {takes} then 1 else 0 end")},
         lease = case when {takes} then cast(:next_lease as uuid) end,
         owner = case when {takes} then owner end, executor = case when {takes} then executor end,
         deadline = case when {takes} then clock_timestamp() + make_interval(secs => :timeout) end,
         heartbeat_due = case when {takes} then
           clock_timestamp() + make_interval(secs => cast(:heartbeat_timeout as float8)) end,
         due_at = {QUEUED_DUE}, entered_at = clock_timestamp(),
         snapshot_seq = case when :is_snapshot then seq + 1 else snapshot_seq end, weight = :weight"""


# The same, and take the lease of the next step at once, unless the case is paused. It is flushed, as every checkpoint,
# so the intent of the next step is durable before its call.
ONWARD = text(f"""
with h as (
  update keepstep.heads h
     set {gone_on("not paused")}
   where {FENCE}
  returning id, seq, paused, queue, priority, deadline
), k as ({CHECKPOINT})
select seq, paused, queue, priority, deadline from h
""")

# After ONWARD found no row: was the next step's lease taken, and only the reply lost?
WENT_ON = text("""
select seq, queue, deadline from keepstep.heads
 where id = :id and lease = :next_lease and status = 'running'
""")

# The same, into one or more waits. Arrays of JSON as text, because PostgreSQL can't take JSON with a NUL in it apart.
COMMIT_WAIT = text(f"""{ADVANCE}, w as (
  insert into keepstep.waits (case_id, seq, name, into_field, then_target, payload_schema, prompt, deadline, on_timeout,
                              default_payload, need_all, stream, approvers, digest, remind_every, remind_at)
  select h.id, h.seq, r.name, r.into_field, cast(r.then_target as json), cast(r.payload_schema as json),
         cast(r.prompt as json), clock_timestamp() + make_interval(secs => r.timeout), cast(r.on_timeout as json),
         cast(r.default_payload as json), r.need_all, r.stream, r.approvers, r.digest, r.remind_every,
         clock_timestamp() + make_interval(secs => r.remind_every)
    from h, unnest(cast(:names as text[]), cast(:into_fields as text[]), cast(:then_targets as text[]),
                   cast(:payload_schemas as text[]), cast(:prompts as text[]), cast(:timeouts as float8[]),
                   cast(:on_timeouts as text[]), cast(:default_payloads as text[]), cast(:need_alls as boolean[]),
                   cast(:streams as boolean[]), cast(:approvers as smallint[]), cast(:digests as text[]),
                   cast(:reminders as float8[]))
              as r (name, into_field, then_target, payload_schema, prompt, timeout, on_timeout, default_payload,
                    need_all, stream, approvers, digest, remind_every))
select seq, paused from h""")

END_CASE = """update keepstep.cases c
     set status = {status}, error = {error}, finished_at = clock_timestamp(),
         expires_at = clock_timestamp() + make_interval(secs => (c.retention ->> {status})::float8)
    from {h} h where c.id = h.id
), hook as (
  insert into keepstep.hooks (case_id, event, seq)
  select h.id, {status}, h.seq from {h} h join keepstep.cases k on k.id = h.id where {status} = any(k.hooks)"""
"""The end of the cases in `h`, as a CTE after that, with their hooks."""

# Write the last checkpoint; the head goes, the case is completed.
COMPLETE = text(f"""
with gone as (
  delete from keepstep.heads where {FENCE} returning id, seq
), h as (select id, seq + 1 as seq from gone), k as ({CHECKPOINT}), c as (
  {END_CASE.format(h="h", status="'completed'", error="null")})
select seq, false as paused from h
""")

_ATTEMPT = """
insert into keepstep.attempts (case_id, seq, step, attempt, lease, node, outcome, error, cost, started_at)
select h.id, h.seq, h.step, h.attempt, :lease, :owner, :outcome, cast(:error as json), cast(:cost as json),
       clock_timestamp() - make_interval(secs => :took) from h"""

# The first statement of a transaction of several: it is ended when it does nothing for so long.
IDLE = text("select set_config('idle_in_transaction_session_timeout', :milliseconds, true)")

# Whether an attempt still holds its lease, so that its result will be taken.
LEASE_HELD = text("select 1 from keepstep.heads where id = :id and lease = :lease")

# End an attempt without a checkpoint: a back-off, a deferral, a hold, a doubt.
SET_ASIDE = text(f"""
with h as (
  update keepstep.heads
     set status = :status, {FREE},
         failures = failures + :failed, deferrals = deferrals + :deferred,
         verifications = verifications + (:doubt = 'verify')::int,
         doubt = case :doubt when 'begin' then :lease when 'clear' then null else doubt end,
         due_at = coalesce(clock_timestamp() + make_interval(secs => :delay), 'infinity'),
         reason = cast(:error as json)
   where {FENCE}
  returning id, seq, step, attempt
), a as ({_ATTEMPT}), hook as (
  insert into keepstep.hooks (case_id, event, seq)
  select h.id, 'held', h.seq from h join keepstep.cases k on k.id = h.id
   where :status = 'held' and 'held' = any(k.hooks))
select seq from h
""")

# End the case as failed, without a checkpoint: it stays at its last good one.
FAIL = text(f"""
with h as (
  delete from keepstep.heads where {FENCE} returning id, seq, step, attempt
), a as ({_ATTEMPT}), c as ({END_CASE.format(h="h", status="'failed'", error="cast(:error as json)")})
select seq from h
""")

# After a statement above found no row: did it land, and only its reply was lost? With what the ring needs, if the case
# still stands there.
LANDED = text("""
select c.seq, coalesce(h.paused, false) as paused, h.queue, h.priority
  from keepstep.checkpoints c left join keepstep.heads h on h.id = c.case_id and h.seq = c.seq
 where c.case_id = :id and c.seq = :seq + 1 and c.lease = :lease
""")

# The same for the ways to end an attempt that write no checkpoint. A recovery notes the lease too, but another outcome.
ENDED = text("""
select 1 from keepstep.attempts where case_id = :id and seq = :seq and lease = :lease and outcome = :outcome
""")

# Keep a late result's trace for people; a case that retention has removed meanwhile is passed over.
RECORD_LATE = text("""
insert into keepstep.attempts (case_id, seq, step, attempt, lease, node, outcome, error, cost)
select id, :seq, :ran, :attempt, :lease, :owner, 'late', cast(:error as json), cast(:cost as json)
  from keepstep.cases where id = :id for key share
""")
