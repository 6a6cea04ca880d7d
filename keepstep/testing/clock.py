"""A database whose clock can be put forward, so that a test of a two-week deadline takes no time.

keepstep knows one clock, the database's `clock_timestamp()`. A function of the same name, found before the built-in one
by the database's search path, adds an offset: the very statements of production run, and only their clock is another.
"""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from keepstep.config.settings import postgres_url
from keepstep.steps.outcome import seconds_of

_INSTALL = """
create schema if not exists keepstep_clock;
create table if not exists keepstep_clock.clock (ahead interval not null);
insert into keepstep_clock.clock select interval '0' where not exists (select from keepstep_clock.clock);
create or replace function keepstep_clock.clock_timestamp() returns timestamptz language sql volatile as
  'select pg_catalog.clock_timestamp() + (select ahead from keepstep_clock.clock)';
"""

# Columns that take the time by default were bound to the built-in function when they were made.
_DEFAULTS = """
select format('alter table %I.%I alter column %I set default keepstep_clock.clock_timestamp()',
              table_schema, table_name, column_name)
  from information_schema.columns where table_schema = 'keepstep' and column_default = 'clock_timestamp()'
"""

_FIRST = """
do $$ begin
  execute format('alter database %I set search_path = keepstep_clock, pg_catalog, "$user", public', current_database());
end $$
"""


class Clock:
    """The clock of one test database that has keepstep's tables.

    Connections that were open before it was installed keep the built-in clock: install it first, then start workers.
    """

    def __init__(self, url: str):
        self._engine = sa.create_engine(postgres_url(url), poolclass=NullPool)
        with self._engine.begin() as connection:
            connection.execute(sa.text(_INSTALL))
            for (statement,) in connection.execute(sa.text(_DEFAULTS)).all():
                connection.execute(sa.text(statement))
            connection.execute(sa.text(_FIRST))

    def advance(self, by: timedelta | float) -> None:
        """Put the clock forward, by a timedelta or seconds. It never goes back."""
        with self._engine.begin() as connection:
            forward = sa.text("update keepstep_clock.clock set ahead = ahead + make_interval(secs => :seconds)")
            connection.execute(forward, {"seconds": seconds_of(by)})
