"""What somebody has locked, and keeps locked: it is theirs for a lease at the most, and holds up nobody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from keepstep import Client, wait_for
from keepstep.checkpoint import joins, waits
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.testing.runner import Runner
from keepstep.workers.engine import Engine
from keepstep.workers.node import NodeThreads
from keepstep.workers.sweep import Sweep
from tests import branch_flows, flows
from tests.support.hand import Hand
from tests.support.stages import ask

LOCK = "select from keepstep.heads h join keepstep.cases k on k.id = h.id where k.thread_id = 'stuck' for update of h"
YES = {"approved": True}


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


@pytest.fixture
def sweep(db: Database, client: Client) -> Sweep:
    return Sweep(Engine(settings=client.settings, db=db, registry=client.registry, bell=client._bell), lambda: set())


@contextmanager
def locked(db: Database) -> Iterator[None]:
    """Somebody has the case "stuck" locked, without end."""
    with db.engine.connect() as other:
        other = other.execution_options(isolation_level="READ COMMITTED")
        with other.begin():
            other.execute(sa.text(LOCK))
            yield


def passes_by(db: Database, look: Callable[[], None]) -> None:
    """The look comes to its end although the case is locked."""
    with ThreadPoolExecutor(1) as pool, locked(db):
        pool.submit(look).result(timeout=10)


def bring_past_a_deadline(hand: Hand, client: Client) -> Callable[[str], bool]:
    for thread_id in ("stuck", "free"):
        ring = hand.start(thread_id, flows.expiring)
        hand.step(ring, 0, wait_for("approval", into="approval", timeout=0, on_timeout="escalate", then="answered"))
    return lambda thread_id: client.get("expiring", thread_id).step == "escalate"


def bring_beside_a_signal(hand: Hand, client: Client) -> Callable[[str], bool]:
    for thread_id in ("stuck", "free"):
        ring = hand.start(thread_id, flows.approve)
        client.signal("approve", thread_id, "approval", YES)
        hand.step(ring, 0, ask())  # and whoever committed it died before the delivery
    return lambda thread_id: client.get("approve", thread_id).status == "queued"


@pytest.mark.parametrize("bring", [bring_past_a_deadline, bring_beside_a_signal])
def test_the_sweep_passes_by_a_case_that_somebody_has_locked(
    hand: Hand,
    client: Client,
    db: Database,
    sweep: Sweep,
    bring: Callable[[Hand, Client], Callable[[str], bool]],
) -> None:
    has_moved = bring(hand, client)
    passes_by(db, sweep.round)
    assert (has_moved("stuck"), has_moved("free")) == (False, True)
    sweep._look_at_due()
    assert has_moved("stuck")


def test_the_sweep_passes_by_a_fan_out_that_somebody_has_locked_and_comes_again(
    database_url: str, db: Database, monkeypatch
) -> None:
    with Runner(database_url, workflows=branch_flows.ALL) as runner:
        runner.start("fanning", "stuck", {"over": [{"n": 1, "does": "double"}]})
        with monkeypatch.context() as died:
            died.setattr(joins, "settle", lambda *_, **__: None)
            runner.run()
        sweep = Sweep(runner._engine, lambda: set())
        sweep._look_for_undone()  # as after a death
        passes_by(db, sweep._look_at_due)
        assert db.all(sa.text("select made from keepstep.fans"))[0].made == 0
        sweep._look_at_due()
        assert db.all(sa.text("select made from keepstep.fans"))[0].made == 1


def test_a_process_that_is_frozen_in_the_middle_of_a_transaction_keeps_its_locks_for_a_lease(
    hand: Hand, client: Client, db: Database, database_url: str
) -> None:
    ring = hand.start("stuck", flows.approve)
    client.signal("approve", "stuck", "approval", YES)
    hand.step(ring, 0, ask())
    frozen = Database(postgres_url(database_url), lease=0.3)

    def goes_on_too_late() -> None:
        with frozen.transaction() as connection:
            assert waits.lock_head(connection, ring.case) is not None
            assert waits.deliver(db, ring.case) is not None, "once the lock is free"
            connection.execute(sa.text("select 1"))

    with pytest.raises(DatabaseUnavailable):
        goes_on_too_late()
    frozen.dispose()


def test_the_nodes_stay_in_sight_of_a_judge_whose_statement_is_refused_but_not_of_one_that_lost_its_connection(
    database_url: str,
) -> None:
    forgotten: list[str] = []

    class Watching(NodeThreads):
        def __init__(self, what: str) -> None:
            self._sweep = type("", (), {"forget": lambda _: forgotten.append(what)})()

    one = Database(postgres_url(database_url), pool_size=1)

    def run(statement: str) -> Callable[[], None]:
        return lambda: one.run(sa.text(statement), {})

    def times_out() -> None:
        with one.transaction() as connection:
            connection.execute(sa.text("set local statement_timeout = 10"))
            connection.execute(sa.text("select pg_sleep(10)"))

    for what, act in {
        "timed out": times_out,
        "refused": run("do $$ begin raise exception 'full' using errcode = '53100'; end $$"),
        "ended": run("select pg_terminate_backend(pg_backend_pid())"),
    }.items():
        Watching(what)._guarded(act)
    elsewhere = Database("postgresql+psycopg2://nobody@127.0.0.1:1/nothing")
    Watching("away")._guarded(lambda: elsewhere.run(sa.text("select 1"), {}))
    assert forgotten == ["ended", "away"]
    one.dispose()
