"""The hot statements as prepared ones: as patient as the others, and given up where they don't last."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import hot
from keepstep.config.settings import postgres_url
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.workers.patience import patient
from tests.support.eventually import eventually
from tests.support.hand import Hand

NOWHERE = "postgresql+psycopg2://postgres@127.0.0.1:1/x"
FENCE = {"id": uuid4(), "lease": uuid4()}
CLAIM = {**FENCE, "seq": 0, "owner": uuid4(), "executor": "1:1", "known": "{}"}


@pytest.fixture
def prepared(database_url: str) -> Iterator[Database]:
    database = Database(postgres_url(database_url), prepare=True)
    yield database
    database.dispose()


@contextmanager
def away(admin: Database, db: Database) -> Iterator[None]:
    """PostgreSQL refuses everybody, and throws out who is there."""
    name = db.engine.url.database
    admin.run(sa.text(f"alter database {name} allow_connections false"), {})
    admin.all(sa.text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :name"), {"name": name})
    yield
    admin.run(sa.text(f"alter database {name} allow_connections true"), {})


@pytest.mark.parametrize("prepare", [True, False])
def test_a_server_that_is_not_there_is_unavailable(prepare: bool) -> None:
    with pytest.raises(DatabaseUnavailable):
        Database(NOWHERE, prepare=prepare).one(hot.CLAIM, CLAIM)


def test_a_commit_outlasts_a_server_that_is_away(admin: Database, prepared: Database) -> None:
    hand = Hand(prepared)
    claim = hand.claim(hand.start())
    done: list[object] = []
    tries: list[Claim] = []

    def commit() -> object:
        tries.append(claim)
        return hand.commit(claim)

    committing = threading.Thread(target=lambda: done.append(patient(20)(commit)))
    with away(admin, prepared):
        committing.start()
        eventually(lambda: len(tries) >= 3, 20, "it tries again while nobody answers")
        assert done == []
    committing.join(20)
    assert done[0].ring.seq == 1


def test_a_dead_connection_of_the_pool_is_unavailable_in_a_transaction_too(admin: Database, prepared: Database) -> None:
    for _ in range(2):
        with prepared.transaction() as connection:
            connection.execute(sa.text("select 1"))
    with away(admin, prepared), pytest.raises(DatabaseUnavailable), prepared.transaction() as connection:
        connection.execute(sa.text("select 1"))
    with prepared.transaction() as connection:
        assert connection.execute(sa.text("select 1")).scalar_one() == 1


def test_where_sessions_are_not_ones_own_it_goes_without(prepared: Database) -> None:
    hand = Hand(prepared)
    ring = hand.start()
    assert hand.step(ring, 0)
    with prepared.connect() as connection:
        connection.exec_driver_sql("deallocate all")  # as a pooler does that lends another session
    assert hand.step(ring, 1)
    assert not prepared._plans


def test_both_ways_are_one(prepared: Database, db: Database) -> None:
    for database in (prepared, db):
        hand = Hand(database)
        ring = hand.start(str(id(database)))
        claim = hand.claim(ring)
        assert (claim.step, claim.delivery.seq) == ("s1", 0)
        assert hand.commit(claim).ring.step == "s2"
        assert hand.commit(claim).ring.step == "s2", "its lost reply is recognised"
