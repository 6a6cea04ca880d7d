"""Ended cases leave: past their retention, by an operator's word, or erased as the law wants it.

Lock order: the cases that go first, parents before children, then everything else of theirs. What is to be deleted is
looked for in statements of their own, after the lock, so that nothing is left that was written just before it.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.checkpoint.sql.sweep import NOW
from keepstep.checkpoint.tables import metadata

_OF_A_CASE = ("checkpoints", "attempts", "calls", "signals", "waits", "fans", "branches", "audit", "hooks", "blobs")
"""The tables with rows of a case, besides `cases` itself and, while it lives, `heads`."""
assert set(_OF_A_CASE) == {t.name for t in metadata.tables.values() if "case_id" in t.columns} - {"erasures"}

# Nothing is lost if a deletion is: it is made again. So it waits for no flush.
NO_FLUSH = text("select set_config('synchronous_commit', 'off', true)")

_EXPIRED = f"k.expires_at <= {NOW}"
_OLD = f"""k.workflow = :workflow and k.finished_at <= {NOW} - make_interval(secs => :older)
   and (cast(:status as text) is null or k.status = :status)"""

# A case whose hooks are still to be called stays until they are, but not for ever: one may never succeed.
_TOLD = f"""not exists (select from keepstep.hooks o where o.case_id = k.id
                                         and k.finished_at > {NOW} - interval '7 days')"""

# A child goes with its parent, and not before.
_MAY_GO = f"k.status is not null and k.parent is null and {_TOLD}"


def _due(condition: str, order: str) -> str:
    return f"""
select k.id from keepstep.cases k where {condition} and {_MAY_GO}
 order by {order} limit :limit for update of k skip locked
"""


def _count(condition: str) -> str:
    return f"""
select k.workflow, k.status, count(*) as cases from keepstep.cases k
 where {condition} and k.parent is null group by 1, 2 order by 1, 2
"""


# The cases that may go now, locked; and how many there are.
LOCK_EXPIRED, COUNT_EXPIRED = text(_due(_EXPIRED, "k.expires_at")), text(_count(_EXPIRED))
LOCK_OLD, COUNT_OLD = text(_due(_OLD, "k.finished_at")), text(_count(_OLD))

# CHILDREN: the one place that says which cases go with a case. `root` is the case that takes them along.
CHILDREN = text("""
with recursive family (id, root) as (
  select id, parent from keepstep.cases where parent = any(cast(:ids as uuid[]))
  union
  select c.id, f.root from keepstep.cases c join family f on c.parent = f.id
)
select id, root from family
""")

# Children that have ended, locked, unless somebody is at them.
LOCK_CHILDREN = text(f"""
select k.id from keepstep.cases k
 where k.id = any(cast(:ids as uuid[])) and k.status is not null and {_TOLD} order by k.id for update of k skip locked
""")

# Families that can't go now make room for those behind them.
PUT_OFF = text("""
update keepstep.cases set expires_at = clock_timestamp() + interval '1 minute'
 where id = any(cast(:ids as uuid[])) and expires_at is not null
""")

_deletions = ", ".join(
    f"d{number} as (delete from keepstep.{table} where case_id = any(cast(:ids as uuid[])))"
    for number, table in enumerate(_OF_A_CASE)
)

# The cases that were locked, with all that is theirs.
REMOVE = text(f"""
with {_deletions}
delete from keepstep.cases where id = any(cast(:ids as uuid[])) returning workflow, status
""")

# ------------------------------------------------------------------------------------------------------------ erasure
# The case that is to be erased, with its children. live: it hasn't ended.
LOCK_FAMILY = text("""
with recursive family (id) as (
  select id from keepstep.cases where id = :id
  union
  select c.id from keepstep.cases c join family f on c.parent = f.id
)
select k.id, k.workflow, k.thread_id, k.status is null as live
  from keepstep.cases k where k.id in (select id from family) order by k.parent nulls first, k.id for update
""")

# Forks are cases of their own, with a copy of the state.
FORKS = text("""
select detail ->> 'as' as thread_id from keepstep.audit
 where case_id = :id and verb = 'fork' and detail ->> 'as' is not null order by id
""")

# What a fork's audit says of where it came from.
FORGET_SOURCE = text("""
update keepstep.audit set detail = null
 where verb = 'fork' and detail ->> 'from' = :thread_id
   and case_id in (select id from keepstep.cases where workflow = :workflow)
""")

BURY = text("""
insert into keepstep.erasures (case_id, workflow, children, actor, reason)
values (:id, :workflow, :children, :actor, :reason) returning at
""")

# The last time that a case of this id was erased.
TOMBSTONE = text("""
select at, actor, reason, children from keepstep.erasures where case_id = :id order by id desc limit 1
""")
