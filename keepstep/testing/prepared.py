"""A database made ready for a test: its tables up to date, its clock one that can be put forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url, without_password
from keepstep.steps.errors import KeepstepError, SchemaOutdated
from keepstep.testing.clock import Clock

# Cases or workers, in a database whose clock nobody has touched: it isn't a test's.
_IN_USE = sa.text("""
select to_regnamespace('keepstep_clock') is null
       and (exists (select from keepstep.cases) or exists (select from keepstep.nodes)) as in_use
""")


class NotATestDatabase(KeepstepError):
    """The database holds cases or workers, and has never been a test's: its clock is left alone."""

    def __init__(self, url: str):
        super().__init__(
            f"{without_password(postgres_url(url))} holds cases or workers already. A test puts the database's clock "
            "forward, for good: give it a database of its own, for instance that of the fixture keepstep_database_url."
        )


def prepare(url: str) -> Clock:
    """Bring the tables up to date and install the clock. Raises NotATestDatabase before it touches the clock."""
    with single(url) as database:
        try:
            schema.check(database)
        except SchemaOutdated:
            schema.upgrade(database)
        if database.all(_IN_USE)[0].in_use:
            raise NotATestDatabase(url)
    return Clock(url)


@contextmanager
def single(url: str) -> Iterator[Database]:
    """A database with one connection, closed afterwards."""
    database = Database(postgres_url(url), pool_size=1, application_name="keepstep test")
    try:
        yield database
    finally:
        database.dispose()
