"""What takes room in the database, and whether PostgreSQL keeps up with it."""

from __future__ import annotations

from sqlalchemy import text

# By table: bytes, rows as PostgreSQL estimates them, and what waits for its vacuum.
TABLES = text("""
select c.relname as name, greatest(s.n_live_tup, 0) as rows, s.n_dead_tup as dead,
       pg_relation_size(c.oid) as heap, pg_indexes_size(c.oid) as indexes,
       coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) as toast,
       greatest(s.last_vacuum, s.last_autovacuum) as vacuumed,
       coalesce((select option_value = 'false' from pg_options_to_table(c.reloptions)
                  where option_name = 'autovacuum_enabled'), false) as unattended
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_stat_all_tables s on s.relid = c.oid
 where n.nspname = 'keepstep' and c.relkind = 'r' and c.relname <> 'alembic_version'
 order by pg_total_relation_size(c.oid) desc, c.relname
""")

# By workflow: cases, and of how many ended ones nobody says when they go.
WORKFLOWS = text("""
select k.workflow, count(*) filter (where k.status is null) as live,
       count(*) filter (where k.status is not null) as ended,
       count(*) filter (where k.status is not null and k.expires_at is null and k.parent is null) as for_ever,
       count(*) filter (where k.expires_at < clock_timestamp() - interval '1 hour' and k.parent is null) as overdue
  from keepstep.cases k group by 1 order by 1
""")

# Bytes of the payloads by workflow: of all checkpoints, or of so many percent of their pages.
PAYLOADS = text("""
select k.workflow, sum(pg_column_size(c.*)) as bytes
  from keepstep.checkpoints c tablesample system (:percent) join keepstep.cases k on k.id = c.case_id group by 1
""")

# Transactions that keep dead rows alive for everybody, and whether anybody clears them away at all.
SERVER = text("""
select current_setting('autovacuum') = 'on' as autovacuum,
       (select max(extract(epoch from clock_timestamp() - xact_start)) from pg_stat_activity
         where backend_xmin is not null and pid <> pg_backend_pid() and xact_start is not null)::float8 as oldest
""")
