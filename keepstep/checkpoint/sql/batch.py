"""The claim and the commit of several cases at once: one statement each, and one durable flush.

They say what the statements for one case say, and are made of the same text: what is a parameter there is a column of
the rows `m` here.
"""

from __future__ import annotations

import re

from sqlalchemy import text

from keepstep.checkpoint.sql import hot
from keepstep.checkpoint.sql.sweep import RING


def _of_rows(one: str) -> str:
    """The text of a statement for one case, with the columns of `m` in the place of its parameters."""
    return re.sub(r"(?<!:):([a-z_]+)", r"m._\1", one)


# Take the leases of those queued cases that may run in company: what a death would put in doubt may not, nor what is
# suspected of it. What somebody else has locked just now is passed over. Repeated, it recognises its own leases.
CLAIM_MANY = text(f"""
with asked as materialized (
  select set_config('synchronous_commit', 'off', true) as flush, cast(:known as jsonb) as known
), m as (
  select * from unnest(cast(:id as uuid[]), cast(:seq as int[]), cast(:lease as uuid[])) as m (id, seq, lease)
), l as materialized (
  select h.id, m.lease from asked, m join keepstep.heads h on h.id = m.id and h.seq = m.seq
   where asked.flush is not null
     and ((h.{hot.guard("claim")} and not h.paused and h.in_doubt = 'retry' and h.doubt is null and h.crashes = 0)
          or (h.status = 'running' and h.lease = m.lease))
     and h.schema_version <= (asked.known ->> h.workflow)::int
     for update of h skip locked
), claimed as (
  update keepstep.heads h
     set status = 'running', lease = l.lease, owner = :owner, executor = :executor,
         attempt = h.attempt + case when h.lease is null then 1 else 0 end, {hot.LEASED}, due_at = {hot.GRID}
    from l where h.id = l.id
  returning h.*
){hot.CLAIMED}""")

_COLUMNS = {
    "id": "uuid",
    "lease": "uuid",
    "kind": "text",
    "ran": "text",
    "status": "text",
    "target": "text",
    "attempt": "int",
    "schema_version": "int",
    "is_snapshot": "bool",
    "payload": "text",
    "weight": "int",
    "key_read": "bool",
    "cost": "text",
    "took": "float8",
    "queue": "text",
    "timeout": "float8",
    "in_doubt": "text",
    "heartbeat_timeout": "float8",
    "owner": "uuid",
    "next_lease": "uuid",
}
"""The parameters of COMMIT_MANY are those of ONWARD, each as an array with an item for each case."""

# Write the checkpoints and let the heads go on, with the next step's lease where one is given, or end the cases: each
# fenced by its own lease. The rows say which.
COMMIT_MANY = text(f"""
with m as (
  select * from unnest({", ".join(f"cast(:{name} as {kind}[])" for name, kind in _COLUMNS.items())})
                as m ({", ".join(f"_{name}" for name in _COLUMNS)})
), advanced as (
  update keepstep.heads
     set {_of_rows(hot.gone_on("not paused and :next_lease is not null"))}
    from m
   where {_of_rows(hot.FENCE)} and m._status <> 'completed'
  returning id, seq, paused, queue, priority, deadline, lease
), gone as (
  delete from keepstep.heads using m where {_of_rows(hot.FENCE)} and m._status = 'completed' returning id, seq
), ended as (
  select id, seq + 1 as seq, false as paused, cast(null as text) as queue, cast(null as smallint) as priority,
         cast(null as timestamptz) as deadline, cast(null as uuid) as lease
    from gone
), h as (
  select * from advanced union all select * from ended
), k as ({_of_rows(hot.CHECKPOINT)} join m on m._id = h.id
), c as (
  {hot.END_CASE.format(h="ended", status="'completed'", error="null")})
select * from h
""")

TYPES = {name: f"{kind}[]" for name, kind in _COLUMNS.items()}
"""The parameters of COMMIT_MANY, with their types."""

# Give back what was claimed and has not begun: as if it had not been claimed.
GIVE_BACK = text(f"""
with m as (
  select * from unnest(cast(:ids as uuid[]), cast(:leases as uuid[])) as m (id, lease)
)
update keepstep.heads h
   set status = 'queued', attempt = h.attempt - 1, {hot.FREE}, due_at = {hot.QUEUED_DUE.replace("paused", "h.paused")}
  from m where h.id = m.id and h.lease = m.lease and h.{hot.guard("recover")}
returning {RING}, h.paused
""")
