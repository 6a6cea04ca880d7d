"""Large values of a case, stored once each by their digest."""

from __future__ import annotations

from sqlalchemy import text

FETCH = text("""
select digest, value::text as value from keepstep.blobs
 where case_id = :id and digest = any(cast(:digests as text[]))
""")

# The same of live cases, in the transaction of the commit that follows: heads first, as everywhere. Its parameters have
# other names than those of the commits.
KEEP_MANY = text("""
with locked as materialized (
  select id from keepstep.heads where id = any(cast(:blob_cases as uuid[])) order by id for no key update
)
insert into keepstep.blobs (case_id, digest, value)
select l.id, r.digest, cast(r.value as json)
  from unnest(cast(:blob_cases as uuid[]), cast(:blob_digests as text[]), cast(:blob_values as text[]))
         as r (case_id, digest, value)
  join locked l on l.id = r.case_id
on conflict do nothing
""")

# Of another case, whose state this one begins with.
COPY = text("""
insert into keepstep.blobs (case_id, digest, value)
select :id, digest, value from keepstep.blobs where case_id = :source and digest = any(cast(:digests as text[]))
on conflict do nothing
""")

# Before the checkpoint that names them, or with it. What is there already is the same. Of a case that is gone, nothing.
KEEP = text("""
insert into keepstep.blobs (case_id, digest, value)
select k.id, r.digest, cast(r.value as json)
  from keepstep.cases k, unnest(cast(:digests as text[]), cast(:values as text[])) as r (digest, value)
 where k.id = :id
on conflict do nothing returning digest
""")
