"""Large values of a case, stored once each by their digest."""

from __future__ import annotations

from sqlalchemy import text

FETCH = text("""
select digest, value::text as value from keepstep.blobs
 where case_id = :id and digest = any(cast(:digests as text[]))
""")

# Before the checkpoint that names them, or with it. What is there already is the same. Of a case that is gone, nothing.
KEEP = text("""
insert into keepstep.blobs (case_id, digest, value)
select k.id, r.digest, cast(r.value as json)
  from keepstep.cases k, unnest(cast(:digests as text[]), cast(:values as text[])) as r (digest, value)
 where k.id = :id
on conflict do nothing returning digest
""")
