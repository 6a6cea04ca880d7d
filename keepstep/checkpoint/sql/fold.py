"""Old checkpoints of cases that live for very long: what lies before a snapshot that is old enough goes.

Nothing that a claim reads is touched, so nobody has to wait: a head's own chain begins at its last snapshot, and only
what is older than an earlier, or that, snapshot goes.
"""

from __future__ import annotations

from sqlalchemy import text

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

UNNAMED_BLOBS = text("""
delete from keepstep.blobs b where case_id = :id and not exists (
  select from keepstep.checkpoints c where c.case_id = :id and strpos(c.payload::text, b.digest) > 0)
""")
