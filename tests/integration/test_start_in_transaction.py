"""A case that is started in the caller's transaction shares its fate, and never harms it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import psycopg2
import pytest
import redis
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.steps.errors import BadConnection, BadStart, CaseConflict, CaseExists, UnknownCase
from tests import flows
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.trace import Trace

MARK = sa.text("insert into marks values (1)")


@pytest.fixture(params=["psycopg2", "psycopg"])
def engine(request: pytest.FixtureRequest, database_url: str) -> Iterator[sa.Engine]:
    """The application's own engine, with a table of its own beside keepstep's."""
    url = sa.make_url(postgres_url(database_url)).set(drivername=f"postgresql+{request.param}")
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("create table marks (n int)"))
    yield engine
    engine.dispose()


@pytest.fixture(params=["psycopg2", "psycopg"])
def raw(request: pytest.FixtureRequest, database_url: str) -> Iterator[Any]:
    """A connection of a bare driver."""
    connect: Callable[[str], Any] = {"psycopg2": psycopg2.connect, "psycopg": psycopg.connect}[request.param]
    connection = connect(database_url)
    yield connection
    connection.close()


def messages(broker_url: str) -> int:
    with redis.Redis.from_url(broker_url) as valkey:
        return int(valkey.llen("keepstep"))


def exists(client: Client, thread_id: str) -> bool:
    try:
        return client.get("ten", thread_id).thread_id == thread_id
    except UnknownCase:
        return False


# ----------------------------------------------------------------------------------------------------- SQLAlchemy
def test_a_committed_connection_makes_the_case_and_rings(client: Client, engine: sa.Engine, broker_url: str) -> None:
    with engine.begin() as connection:
        started = client.start("ten", "A", {}, connection=connection)
        assert (started.new, started.rung) == (True, False)
        assert not exists(client, "A"), "nobody sees it before the commit"
        assert messages(broker_url) == 0
    assert client.get("ten", "A").status == "queued"
    assert messages(broker_url) == 1


def test_a_rolled_back_connection_makes_no_case_and_does_not_ring(
    client: Client, engine: sa.Engine, broker_url: str
) -> None:
    with engine.connect() as connection:
        client.start("ten", "A", {}, connection=connection)
        connection.rollback()
        connection.execute(MARK)
        connection.commit()
    assert not exists(client, "A")
    assert messages(broker_url) == 0


def test_a_connection_that_goes_back_to_its_pool_without_a_commit_makes_no_case(
    client: Client, engine: sa.Engine, broker_url: str
) -> None:
    with engine.connect() as connection:
        client.start("ten", "A", {}, connection=connection)
    with engine.begin() as connection:
        connection.execute(MARK)
    assert not exists(client, "A")
    assert messages(broker_url) == 0


def test_a_connection_that_is_kept_rings_when_its_next_transaction_begins(
    client: Client, engine: sa.Engine, broker_url: str
) -> None:
    with engine.connect() as connection:
        client.start("ten", "A", {}, connection=connection)
        connection.commit()
        assert messages(broker_url) == 0
        connection.execute(MARK)
        assert messages(broker_url) == 1
    assert messages(broker_url) == 1


def test_a_session_decides_with_its_commit(client: Client, engine: sa.Engine, broker_url: str) -> None:
    with sessionmaker(engine)() as session:
        client.start("ten", "A", {}, connection=session)
        client.start("ten", "B", {}, connection=session.connection())
        session.rollback()
        client.start("ten", "C", {}, connection=session)
        session.execute(MARK)
        session.commit()
        assert messages(broker_url) == 1, "rung by the commit, while the session lives on"
    assert [case.thread_id for case in client.list()] == ["C"]


def test_only_the_outermost_commit_rings(client: Client, engine: sa.Engine, broker_url: str) -> None:
    with engine.begin() as connection:
        with connection.begin_nested():
            client.start("ten", "kept", {}, connection=connection)
        assert messages(broker_url) == 0
        undone = connection.begin_nested()
        client.start("ten", "undone", {}, connection=connection)
        undone.rollback()
    assert [case.thread_id for case in client.list()] == ["kept"]


def test_a_session_inside_the_callers_outer_transaction_waits_for_that(
    client: Client, engine: sa.Engine, broker_url: str
) -> None:
    with engine.connect() as connection, connection.begin() as outer:
        with Session(connection, join_transaction_mode="create_savepoint") as session:
            client.start("ten", "A", {}, connection=session)
            session.commit()
        assert messages(broker_url) == 0
        outer.rollback()
    assert messages(broker_url) == 0
    assert not exists(client, "A")


def test_a_taken_thread_id_does_not_abort_the_callers_transaction(client: Client, engine: sa.Engine) -> None:
    client.start("ten", "A", {})
    with engine.begin() as connection:
        assert not client.start("ten", "A", {}, connection=connection).new
        with pytest.raises(CaseConflict):
            client.start("ten", "A", {"seconds": 1}, connection=connection)
        with pytest.raises(CaseExists):
            client.start("ten", "A", {}, connection=connection, if_exists="raise")
        connection.execute(MARK)
    with engine.connect() as connection:
        assert connection.execute(sa.text("select count(*) from marks")).scalar() == 1


def test_a_dead_broker_is_no_concern_of_the_callers_transaction(database_url: str, engine: sa.Engine) -> None:
    with Client(database_url, "redis://127.0.0.1:1/0", workflows=[flows.ten]) as client:
        began = time.monotonic()
        with engine.begin() as connection:
            client.start("ten", "A", {}, connection=connection)
        assert time.monotonic() - began < 2.0, "the promise to the caller, not a measurement"
        assert client.get("ten", "A").status == "queued"


def test_a_case_of_a_transaction_runs_at_once_after_the_commit(
    client: Client, engine: sa.Engine, start_worker: StartWorker
) -> None:
    start_worker()
    with sessionmaker(engine).begin() as session:
        client.start("ten", "A", {}, connection=session)
    began = time.monotonic()
    client.wait("ten", "A", 20)
    print(f"ten steps in {time.monotonic() - began:.2f} s after the commit")
    assert time.monotonic() - began < 4.0, "the sweep alone would take 5 to 10 s"


# ------------------------------------------------------------------------------------------------------ bare drivers
def test_a_bare_connection_decides_with_its_commit(client: Client, raw: Any, broker_url: str) -> None:
    client.start("ten", "A", {"log": ["100 %", "x"]}, connection=raw)
    raw.rollback()
    assert not exists(client, "A")
    started = client.start("ten", "B", {"log": ["100 %", "%(x)s", "Zoë"]}, connection=raw, tags={"tenant": "acme"})
    assert client.ring(started) == 0, "not committed: nobody to ring for"
    raw.commit()
    assert client.get("ten", "B").state["log"] == ["100 %", "%(x)s", "Zoë"]
    assert messages(broker_url) == 0, "no hook tells of its commit"
    assert client.ring(started) == 1
    assert messages(broker_url) == 1


def test_a_bare_connection_survives_a_conflict(client: Client, raw: Any) -> None:
    client.start("ten", "A", {})
    assert not client.start("ten", "A", {}, connection=raw).new
    with pytest.raises(CaseConflict):
        client.start("ten", "A", {"seconds": 1}, connection=raw)
    client.start("ten", "B", {}, connection=raw)
    raw.commit()
    assert exists(client, "B")


def test_whatever_rows_the_callers_cursors_make_a_start_reads_its_own(client: Client, database_url: str) -> None:
    from psycopg2.extras import RealDictCursor

    client.start("ten", "A", {})
    with psycopg2.connect(database_url, cursor_factory=RealDictCursor) as dicts:
        assert not client.start("ten", "A", {}, connection=dicts).new
    dicts.close()
    with psycopg.connect(database_url, row_factory=psycopg.rows.dict_row) as rows:
        assert not client.start("ten", "A", {}, connection=rows).new


def test_many_cases_start_in_a_bare_transaction(client: Client, raw: Any) -> None:
    started = client.start_many("ten", {f"A{n}": {} for n in range(1500)}, connection=raw)
    raw.commit()
    assert client.counts() == {"queued": 1500}
    assert client.ring(started) == 1500


@pytest.mark.slow
def test_an_unrung_start_runs_by_the_sweep(
    client: Client, database_url: str, start_worker: StartWorker, trace: Trace, db: Database
) -> None:
    start_worker()
    with psycopg2.connect(database_url) as raw:
        client.start("ten", "A", {}, connection=raw)
    began = time.monotonic()
    eventually(lambda: client.get("ten", "A").seq > 0, 20, "the sweep finds it")
    took = time.monotonic() - began
    print(f"found by the sweep after {took:.2f} s")
    assert took < 15
    raw.close()


@pytest.mark.parametrize("given", ["text", object(), 7])
def test_what_is_no_connection_is_refused_with_what_would_be_one(client: Client, given: object) -> None:
    with pytest.raises(BadConnection, match=r"psycopg2 or psycopg, not a .*run_sync"):
        client.start("ten", "A", {}, connection=given)


def test_another_kind_of_database_is_refused(client: Client) -> None:
    with sa.create_engine("sqlite://").connect() as connection, pytest.raises(BadConnection):
        client.start("ten", "A", {}, connection=connection)


def test_a_restart_is_no_part_of_the_callers_transaction(client: Client, raw: Any) -> None:
    with pytest.raises(BadStart, match="restart"):
        client.start("ten", "A", {}, connection=raw, if_exists="restart")


def test_under_repeatable_read_a_start_since_the_snapshot_is_a_serialization_failure(
    client: Client, engine: sa.Engine
) -> None:
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        connection.execute(sa.text("select 1 from marks"))  # takes the snapshot
        client.start("ten", "A", {})
        with pytest.raises(sa.exc.OperationalError, match="could not serialize"):
            client.start("ten", "A", {}, connection=connection)
        connection.rollback()
        assert not client.start("ten", "A", {}, connection=connection).new


def test_a_raw_connection_of_an_engine_is_a_bare_one(client: Client, engine: sa.Engine) -> None:
    raw = engine.raw_connection()
    client.start("ten", "A", {}, connection=raw)
    raw.rollback()
    client.start("ten", "B", {}, connection=raw)
    raw.commit()
    raw.close()
    assert [case.thread_id for case in client.list()] == ["B"]


def test_an_async_session_starts_by_run_sync(client: Client, database_url: str, broker_url: str) -> None:
    pytest.importorskip("greenlet")
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

    async def start() -> None:
        url = sa.make_url(postgres_url(database_url)).set(drivername="postgresql+psycopg")
        engine = create_async_engine(url)
        async with AsyncSession(engine) as session:
            with pytest.raises(BadConnection, match="run_sync"):
                client.start("ten", "A", {}, connection=session)
            await session.run_sync(lambda s: client.start("ten", "A", {}, connection=s))
            await session.rollback()
            await session.run_sync(lambda s: client.start("ten", "B", {}, connection=s))
            await session.commit()
        await engine.dispose()

    asyncio.run(start())
    assert [case.thread_id for case in client.list()] == ["B"]
    assert messages(broker_url) == 1
