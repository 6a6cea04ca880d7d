"""What a case's secrets are, and where they may be."""

from __future__ import annotations

from sqlalchemy import text

# Where the case's state has secret fields.
SECRETS = text("select secrets from keepstep.cases where id = :id")

# Which field a signal goes to, as far as the case has waited for it.
WAITED_FOR = text("""
select name, max(into_field) as into_field from keepstep.waits where case_id = :id
 group by name having count(distinct coalesce(into_field, '')) = 1
""")

# What is apart and could be items of a log: lists.
CHUNKS = text("""
select value::text as value from keepstep.blobs where case_id = :id and json_typeof(value) = 'array'
""")

# All that its states ever held.
PAYLOADS = text("select payload::text as payload from keepstep.checkpoints where case_id = :id order by seq")
