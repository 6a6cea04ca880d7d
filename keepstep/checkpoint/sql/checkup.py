"""What `keepstep doctor` asks PostgreSQL."""

from __future__ import annotations

from sqlalchemy import text

# The server, by its own words. connections: of all databases and users, this one included.
SERVER = text("""
select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
       extract(epoch from clock_timestamp())::float8 as clock, pg_is_in_recovery() as standby,
       current_setting('max_connections')::int as most,
       current_setting('superuser_reserved_connections')::int as reserved,
       (select count(*) from pg_stat_activity where backend_type = 'client backend') as connections,
       (select count(*) from pg_stat_activity where application_name like 'keepstep%') as ours,
       coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
       current_setting('synchronous_commit') as synchronous_commit, current_setting('fsync') as fsync
""")

# Cases that an operator should look at. Each count stops at 10,000.
STUCK = text("""
select (select count(*) from (select from keepstep.heads where status = 'held' limit 10000) h) as held,
       (select count(*) from (select from keepstep.heads where paused limit 10000) h) as paused,
       (select count(*) from (select from keepstep.heads where due_at < 'infinity' and status = 'running'
                                 and deadline < clock_timestamp() - interval '1 minute' limit 10000) h) as overdue,
       (select count(*) from (select from keepstep.heads where due_at < 'infinity' and status = 'sleeping'
                                 and deferrals > 0 limit 10000) h) as unknown,
       (select count(*) from (select from keepstep.hooks where attempts > 3 limit 10000) o) as hooks,
       (select count(*) from (select from keepstep.waits where fate is null
                                 and opened_at < clock_timestamp() - interval '14 days' limit 10000) w) as unanswered
""")
