"""What the drivers of a lent connection have in common, and what they don't."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
import sqlalchemy as sa

from keepstep import Client
from keepstep.config.settings import postgres_url
from keepstep.steps.errors import StartPending


@pytest.fixture(params=["psycopg2", "psycopg"])
def engine(request: pytest.FixtureRequest, database_url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(sa.make_url(postgres_url(database_url)).set(drivername=f"postgresql+{request.param}"))
    yield engine
    engine.dispose()


def messages(broker_url: str) -> int:
    with redis.Redis.from_url(broker_url) as valkey:
        return int(valkey.llen("keepstep"))


@pytest.mark.parametrize("which", ["bare", "SQLAlchemy's"])
def test_a_start_that_another_transaction_holds_is_pending_on_every_driver(
    client: Client, engine: sa.Engine, which: str
) -> None:
    with engine.begin() as holder, engine.connect() as other:
        client.start("ten", "A", {}, connection=holder)
        other.execute(sa.text("set local lock_timeout = '50ms'"))
        lent = other.connection.driver_connection if which == "bare" else other
        with pytest.raises(StartPending, match="ten/A"):
            client.start("ten", "A", {}, connection=lent)
        other.rollback()


def test_a_connection_in_autocommit_rings_at_once(client: Client, engine: sa.Engine, broker_url: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        client.start("ten", "A", {}, connection=connection)
        assert messages(broker_url) == 1
    with engine.begin() as connection:  # the same driver connection, of the same pool
        client.start("ten", "B", {}, connection=connection)
        assert messages(broker_url) == 1
    assert messages(broker_url) == 2
