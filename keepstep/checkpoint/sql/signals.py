"""Signals and waits: lock the head first, then look, in a statement of its own.

A single statement would see a snapshot from before the lock and lose the wake-up (explored in the model). A case's open
waits (fate is null) are always those of its present wait: leaving it closes them all.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.hot import ANEW, END_CASE, FREE, QUEUED_DUE, guard

LOCKED_HEAD = """
select h.id, h.workflow, h.seq, h.status, h.step, h.paused, h.due_at <= clock_timestamp() as due, h.pinned_queue,
       h.priority, h.schema_version, k.thread_id, k.run, k.parent, k.parent_seq
  from keepstep.heads h join keepstep.cases k on k.id = h.id
 where h.id = :id for update of h"""
"""Lock order: the head, then everything else of its case."""

LOCK_HEAD = text(LOCKED_HEAD)

# The same, unless somebody else has it locked: for whoever comes by again.
LOCK_FREE_HEAD = text(f"{LOCK_HEAD} skip locked")

# ---------------------------------------------------------------------------------------------------- what was sent
# The open wait of this name, if the case is waiting for it now.
OPEN_WAIT = text("""
select seq, name, into_field, payload_schema::text as payload_schema, approvers, digest from keepstep.waits
 where case_id = :id and name = :name and stream = :stream and fate is null
""")

# The signal that was sent under this dedupe key before. A rewind frees the keys of what it undoes.
SAME_SIGNAL = text("""
select payload::text as payload from keepstep.signals
 where case_id = :id and name = :name and stream = :stream and dedupe_key = :dedupe_key and refused is null
""")

# The same, of a case that has ended.
SAME_SIGNAL_OF_ENDED = text("""
select 1 from keepstep.signals
 where case_id = :id and name = :name and stream = :stream and dedupe_key = :dedupe_key and refused is null
   and (consumed_seq is not null or counted_seq is not null)
""")

_LINE = """
with recursive line (top, bottom, back_to) as (
  select 2147483647, r.seq, r.back_to from (select) now left join lateral (
    select seq, back_to from keepstep.checkpoints c
     where c.case_id = :id and back_to is not null order by seq desc limit 1) r on true
  union all
  select line.back_to, r.seq, r.back_to from line left join lateral (
    select seq, back_to from keepstep.checkpoints c
     where c.case_id = :id and back_to is not null and seq <= line.back_to order by seq desc limit 1) r on true
   where line.back_to is not null
)"""
"""The stretches of seqs that led to where the case stands: from a rewind, they go on at what it went back to."""


def _stands(seq: str) -> str:
    """What was decided between a rewind and the checkpoint that it went back to is undone, and binds nobody."""
    return f"exists (select from line where {seq} between coalesce(bottom, 0) and top)"


# The decision of this name that binds: consumed, or kept for a wait that hasn't begun. If several people made it, a row
# for each, the one that decided first.
FIRST_DECISION = text(f"""{_LINE}, first as (
  select id, consumed_seq from keepstep.signals s
   where case_id = :id and name = :name and not stream and refused is null
     and ((consumed_seq is null and counted_seq is null) or (consumed_seq is not null and {_stands("consumed_seq")}))
   order by id desc limit 1
)
select s.payload::text as payload from keepstep.signals s, first
 where s.case_id = :id and s.name = :name and not s.stream and s.refused is null
   and (s.id = first.id or s.consumed_seq = first.consumed_seq)
 order by s.id desc
""")

# How the last wait of this name ended, if it did, and what it asked.
LAST_WAIT = text(f"""{_LINE}
select fate, digest from keepstep.waits w
 where case_id = :id and name = :name and not stream and {_stands("seq")}
 order by seq desc limit 1
""")

# What this actor has already said in the open wait that wants several.
SAME_VOTER = text("""
select payload::text as payload from keepstep.signals
 where case_id = :id and name = :name and counted_seq = :wait_seq and actor = :actor
   and not stream and refused is null
""")

# What the first of them said, with whom the others have to agree.
FIRST_VOTE = text("""
select payload::text as payload from keepstep.signals
 where case_id = :id and name = :name and counted_seq = :wait_seq and not stream and refused is null
 order by id limit 1
""")

INSERT = text("""
insert into keepstep.signals (case_id, name, payload, actor, dedupe_key, stream, digest, refused, schema_version)
values (:id, :name, cast(:payload as json), :actor, :dedupe_key, :stream, :digest, :refused, :schema_version)
""")

# ------------------------------------------------------------------------------------------------------- what fits it
_UNUSED = """s.case_id = w.case_id and s.name = w.name and s.consumed_seq is null and s.refused is null
       and s.counted_seq is null"""

# An open wait of the locked case with the oldest signal that is there for it. Decisions and messages are looked for by
# an index of their own, so that a stream's hundred thousand messages aren't read for a decision.
MATCH = text(f"""
select s.id as signal, s.name, s.payload::text as payload, s.schema_version, s.actor, s.digest as about, w.digest,
       w.seq as wait_seq, w.approvers, w.need_all, w.into_field, w.then_target::text as then_target,
       w.payload_schema::text as payload_schema,
       (select count(*) from keepstep.waits o where o.case_id = w.case_id and o.fate is null) as open_waits
  from keepstep.waits w cross join lateral (
    (select * from keepstep.signals s where not w.stream and not s.stream and {_UNUSED} order by s.id limit 1)
    union all
    (select * from keepstep.signals s where w.stream and s.stream and {_UNUSED} order by s.id limit 1)) s
 where w.case_id = :id and w.fate is null
 order by s.id limit 1
""")

# Keep a signal that turned out not to fit, and show it; the wait goes on.
REFUSE = text("update keepstep.signals set refused = :why where id = :signal")

# Count one of several votes, as the question takes it; how many different actors have given theirs by now.
COUNT = text("""
with mine as (
  update keepstep.signals
     set counted_seq = :wait_seq, payload = coalesce(cast(:upcast as json), payload),
         schema_version = case when cast(:upcast as json) is null then schema_version else :version end
   where id = :signal returning actor
)
select count(distinct actor) as votes from (
  select actor from mine union all
  select actor from keepstep.signals
   where case_id = :id and name = :name and counted_seq = :wait_seq and not stream and refused is null) v
""")

_CONSUME = """s as (
  update keepstep.signals s set consumed_seq = h.seq from h
   where s.id = :signal or (s.case_id = h.id and s.name = :name and s.counted_seq = :votes_of and not s.stream
                            and s.refused is null)
), w as (
  update keepstep.waits set fate = case when name = :name then :fate else 'dropped' end,
                            closed_at = clock_timestamp()
    from h where case_id = h.id and fate is null and (name = :name or :closes)
), k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select h.id, h.seq, :kind, :name, :status, :target, 0, h.schema_version, false, cast(:payload as json) from h
)"""

GO_ON = f"""
  update keepstep.heads
     set seq = seq + 1, status = 'queued', step = :target, queue = coalesce(pinned_queue, :queue), timeout = :timeout,
         in_doubt = :in_doubt, heartbeat_timeout = :heartbeat_timeout, {FREE}, {ANEW}, due_at = {QUEUED_DUE},
         entered_at = clock_timestamp(),
         weight = weight + :weight"""
"""A waiting head goes on with the step behind what it waited for."""

# The signal's own checkpoint, and the case goes on with the step behind the wait. No step runs again.
DELIVER = text(f"""
with h as ({GO_ON}
   where id = :id and seq = :seq and {guard("deliver")}
  returning id, seq, schema_version
), {_CONSUME}
select seq from h
""")

# One of several signals that are all needed: its own checkpoint, and the case waits on for the others.
DELIVER_PART = text(f"""
with h as (
  update keepstep.heads set seq = seq + 1, weight = weight + :weight
   where id = :id and seq = :seq and {guard("deliver")}
  returning id, seq, schema_version
), {_CONSUME}
select seq from h
""")

# The same when the wait was the last step.
DELIVER_LAST = text(f"""
with gone as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard("deliver")} returning id, seq, schema_version
), h as (select id, seq + 1 as seq, schema_version from gone), {_CONSUME}, c as (
  {END_CASE.format(h="h", status="'completed'", error="null")})
select seq from h
""")

# ------------------------------------------------------------------------------------------------------- time is up
# The waits of the locked case whose deadline has passed.
OVERDUE = text("""
select name, seq as wait_seq, into_field, then_target::text as then_target, on_timeout::text as on_timeout,
       default_payload::text as default_payload, need_all,
       (select count(*) from keepstep.waits o where o.case_id = w.case_id and o.fate is null) as open_waits
  from keepstep.waits w
 where case_id = :id and fate is null and deadline <= clock_timestamp()
 order by deadline limit 1
""")

# A wait was decided, or has been reminded of: when another deadline or reminder comes next.
NEXT_DEADLINE = text("""
update keepstep.heads h set due_at = coalesce(
  (select min(least(deadline, remind_at)) from keepstep.waits w where w.case_id = h.id and w.fate is null), 'infinity')
 where h.id = :id and h.status = 'waiting'
""")

# Have the hooks called for the waits of the locked case that it is time to remind of. What came due while everything
# was down is one reminder.
REMIND = text("""
with w as (
  update keepstep.waits set remind_at = clock_timestamp() + make_interval(secs => remind_every)
   where case_id = :id and fate is null and remind_at <= clock_timestamp()
  returning case_id, name
)
insert into keepstep.hooks (case_id, event, seq, name) select case_id, 'remind', :seq, name from w
""")

_CLOSE = """w as (
  update keepstep.waits
     set fate = case when deadline <= clock_timestamp() then 'expired' else 'dropped' end, closed_at = clock_timestamp()
    from h where case_id = h.id and fate is null
)"""
"""Of several waits, those without a deadline, or with a later one, are only left: what comes for them isn't late."""

# The deadline's own checkpoint, which changes nothing, and the case goes on with `on_timeout`.
EXPIRE = text(f"""
with h as ({GO_ON}
   where id = :id and seq = :seq and {guard("expire")}
  returning id, seq, schema_version
), {_CLOSE}, k as (
  insert into keepstep.checkpoints (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot,
                                    payload)
  select h.id, h.seq, 'timeout', :name, 'queued', :target, 0, h.schema_version, false, '[]' from h
)
select seq from h
""")

# The deadline leads nowhere: the case has failed.
EXPIRE_FAIL = text(f"""
with h as (
  delete from keepstep.heads where id = :id and seq = :seq and {guard("expire")} returning id, seq
), {_CLOSE}, c as ({END_CASE.format(h="h", status="'failed'", error="cast(:error as json)")})
select seq from h
""")

# -------------------------------------------------------------------------------------------------------- for people
# Decisions that are waited for, the oldest first.
INBOX = text("""
select k.id, k.workflow, k.thread_id, w.name, w.prompt::text as prompt, w.payload_schema::text as payload_schema,
       w.deadline, w.opened_at, w.digest, w.approvers,
       (select count(distinct s.actor) from keepstep.signals s
         where s.case_id = w.case_id and s.name = w.name and s.counted_seq = w.seq) as votes
  from keepstep.waits w join keepstep.cases k on k.id = w.case_id
 where w.fate is null and not w.stream and (cast(:workflow as text) is null or k.workflow = :workflow)
   and (cast(:after as timestamptz) is null or w.opened_at >= :after)
   and (cast(:after as timestamptz) is null
        or (w.opened_at, k.id, w.name) > (cast(:after as timestamptz), cast(:after_id as uuid), :after_name))
 order by w.opened_at, k.id, w.name limit :limit
""")
