"""Faults around the engine itself: a heartbeat that breaks, a database that refuses for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from tests.support.eventually import eventually
from tests.support.promises import kept
from tests.support.trace import Trace

LEASE = {"KEEPSTEP_LEASE_SECONDS": "2"}
BEATS = sa.text("select beat from keepstep.nodes order by started_at")
HEARTBEATS = "from pg_stat_activity where application_name = 'keepstep heartbeat' and datname = current_database()"


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_cancelled_statement_does_not_end_the_heartbeat(
    client: Client, start_worker, trace: Trace, db: Database, pool: str
) -> None:
    start_worker(env=LEASE, pool=pool)
    blocked = sa.text(f"select count(*) as n {HEARTBEATS} and wait_event_type = 'Lock'")
    with db.transaction() as migration:
        migration.execute(sa.text("lock table keepstep.nodes in access exclusive mode"))
        eventually(lambda: db.all(blocked)[0].n == 1, message="the beat really blocks")
        db.all(sa.text(f"select pg_cancel_backend(pid) {HEARTBEATS}"))
        eventually(lambda: db.all(blocked)[0].n == 0, message="the beat was cancelled")
    _still_beats(db)


@pytest.mark.slow
def test_a_killed_heartbeat_process_is_started_again_and_costs_no_step(
    client: Client, start_worker, trace: Trace, db: Database
) -> None:
    worker = start_worker(env={"KEEPSTEP_LEASE_SECONDS": "4"}, pool="threads")
    start_worker(env={"KEEPSTEP_LEASE_SECONDS": "4", "KEEPSTEP_HOST_ID": "elsewhere"}, queues="other")
    [heartbeat] = [p for p in worker.tree() if "keepstep.workers.heartbeat" in " ".join(p.cmdline())]
    client.start("ten", "A", {"seconds": 6})
    eventually(lambda: trace.lines("A", "s5"), 20)
    heartbeat.kill()
    client.wait("ten", "A", 30)
    kept(client, trace, "A")
    _still_beats(db)


def _still_beats(db: Database) -> None:
    before = db.all(BEATS)[0].beat
    eventually(lambda: db.all(BEATS)[0].beat >= before + 2, 15, "the node beats again")


@contextmanager
def read_only(db: Database, admin: Database) -> Iterator[None]:
    """What a client sees of a standby that isn't promoted yet."""
    name = db.engine.url.database
    for value in ("on", "off"):
        admin.run(sa.text(f"alter database {name} set default_transaction_read_only = {value}"), {})
        admin.all(sa.text(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"))
        if value == "on":
            yield


def test_a_commit_outlasts_a_read_only_database(
    client: Client, start_worker, trace: Trace, db: Database, admin: Database
) -> None:
    worker = start_worker()
    client.start("ten", "A", {"seconds": 1})
    eventually(lambda: trace.lines("A", "s5"), 20)
    with read_only(db, admin):
        eventually(lambda: "read-only" in worker.tail(), 20, "something was refused")
    client.wait("ten", "A", 30)
    kept(client, trace, "A")
