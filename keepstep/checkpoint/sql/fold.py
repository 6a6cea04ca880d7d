"""Old checkpoints of cases that live for very long: what lies before a snapshot that is old enough goes.

Nothing that a claim reads is touched, so nobody has to wait: a head's own chain begins at its last snapshot, and only
what is older than an earlier, or that, snapshot goes.
"""

from __future__ import annotations

from sqlalchemy import text

from keepstep.steps.chunks import NODE

# Live cases of the workflow that have twice as many checkpoints as they are to keep. Those of rewinds don't count.
LONG = text("""
select h.id from keepstep.heads h
 where h.workflow = :workflow and h.seq >= 2 * :keep
   and h.seq - (select seq from keepstep.checkpoints c
                 where c.case_id = h.id and c.back_to is null order by seq limit 1) >= 2 * :keep
 limit :limit
""")

# Where the case is folded: its last snapshot that is old enough. Not amid a wait, which begins at an earlier seq.
POINT = text("""
select c.seq from keepstep.heads h join keepstep.checkpoints c on c.case_id = h.id
 where h.id = :id and c.seq <= h.seq - :keep and c.is_snapshot and c.status <> 'waiting'
 order by c.seq desc limit 1
""")

# The oldest ones first. A rewind's stays: it says which decisions are undone.
CHECKPOINTS = text("""
delete from keepstep.checkpoints
 where case_id = :id and seq = any(array(
   select seq from keepstep.checkpoints where case_id = :id and seq < :point and back_to is null
    order by seq limit :limit))
""")

# What else belongs to the time before. Decisions stay, and messages that have a dedupe key: somebody may repeat them.
REST = text("""
with a as (delete from keepstep.attempts where case_id = :id and seq < :point),
     l as (delete from keepstep.calls where case_id = :id and seq < :point),
     w as (delete from keepstep.waits where case_id = :id and seq < :point and fate is not null)
delete from keepstep.signals where case_id = :id and consumed_seq < :point and stream and dedupe_key is null
""")

# A running step may be about to write a checkpoint with a value that none names at the moment.
LOCK_IDLE = text("select 1 from keepstep.heads where id = :id and status <> 'running' for update skip locked")

# Named by a checkpoint, or by a node of a log that is named itself; see keepstep.steps.chunks. What only looks like a
# digest spares a value that could go, and does no harm.
UNNAMED_BLOBS = text(rf"""
with recursive named (digest) as (
  select m.found[1] from keepstep.checkpoints c, regexp_matches(c.payload::text, '[0-9a-f]{{64}}', 'g') m (found)
   where c.case_id = :id
  union
  select m.found[1] from named n join keepstep.blobs b on b.case_id = :id and b.digest = n.digest
   cross join lateral regexp_matches(
     case when json_typeof(b.value) = 'object' then b.value ->> '{NODE}' end, '[0-9a-f]{{64}}', 'g') m (found)
)
delete from keepstep.blobs b where case_id = :id and not exists (select from named n where n.digest = b.digest)
""")
