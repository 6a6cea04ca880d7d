"""What a step costs: two round trips, one durable flush, one message, and HOT updates of the head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
import redis
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import births, claims, commits
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.dev.valkey import Valkey
from keepstep.steps import state as states
from keepstep.steps.decide import Returned, View, decide
from tests import flows
from tests.support.eventually import eventually
from tests.support.proxy import Wiretap, wiretap


@pytest.fixture
def tap(database_url: str) -> Iterator[Wiretap]:
    with wiretap(urlsplit(database_url).port or 5432) as tap:
        yield tap


@pytest.mark.parametrize(
    ("env", "round_trips"),
    [
        pytest.param({}, 2 * 10, id="two a step"),
        pytest.param({"KEEPSTEP_PREPARED_STATEMENTS": "false"}, 2 * 10, id="two a step, not prepared"),
        # the client that sends the first message doesn't know of the worker's setting, so that step stays alone
        pytest.param({"KEEPSTEP_INLINE_SECONDS": "60"}, 2 + 1 + 9, id="inline, one a step, and each message's claim"),
    ],
)
def test_what_a_step_costs_in_round_trips_to_the_database(
    client: Client, start_worker, tap: Wiretap, database_url: str, env: dict[str, str], round_trips: int
) -> None:
    parts = urlsplit(database_url)
    tapped = urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{tap.port}"))
    start_worker(pool="prefork", concurrency=1, env={"KEEPSTEP_DATABASE_URL": tapped, **env})
    client.start("ten", "warm", {})
    client.wait("ten", "warm", 20)
    [hot] = [asked for asked in tap.asked if any("asked as materialized" in q for q in asked)]
    before = len(hot)
    client.start("ten", "A", {})
    client.wait("ten", "A", 20)
    assert len(hot) - before == round_trips, hot[before:]


def test_a_start_costs_one_round_trip_to_the_database(tap: Wiretap, database_url: str, broker_url: str) -> None:
    tapped = urlunsplit(urlsplit(database_url)._replace(netloc=f"postgres@127.0.0.1:{tap.port}"))
    with Client(tapped, broker_url, workflows=flows.ALL) as client:
        client.start("ten", "warm", {})
        [asked] = tap.asked
        before = len(asked)
        assert client.start("ten", "A", {}).new
        assert len(asked) - before == 1, asked[before:]


def test_a_client_does_not_notice_that_the_server_ended_its_connection_meanwhile(client: Client, db: Database) -> None:
    client.start("ten", "A", {})
    ended = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keepstep client'"
    assert db.all(sa.text(f"{ended} and datname = current_database()"))
    there = "select 1 from pg_stat_activity where application_name = 'keepstep client' and datname = current_database()"
    eventually(lambda: not db.all(sa.text(there)), 10)
    assert client.start("ten", "B", {}).new


def test_a_step_costs_one_publish(database_url: str, start_worker, tmp_path: Path) -> None:
    own = Valkey(tmp_path / "valkey", temporary=True)  # its counters are the whole server's
    own.start()
    try:
        start_worker(concurrency=1, env={"KEEPSTEP_EVENTS": "false", "KEEPSTEP_BROKER_URL": own.url})
        with Client(database_url, own.url, workflows=flows.ALL) as client, redis.Redis.from_url(own.url) as valkey:
            client.start("ten", "warm", {})
            client.wait("ten", "warm", 20)
            before = _calls(valkey, "lpush")
            client.start("ten", "A", {})
            client.wait("ten", "A", 20)
            assert _calls(valkey, "lpush") - before == 10
    finally:
        own.stop()


def _calls(valkey: redis.Redis, command: str) -> int:
    return int(valkey.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))


class OneSession:
    """A database of one session, whose own WAL flushes PostgreSQL 18 counts."""

    def __init__(self, url: str):
        self.db = Database(postgres_url(url), pool_size=1)
        if self.db.all(sa.text("select current_setting('server_version_num')::int as n"))[0].n < 180000:
            pytest.skip("counting the flushes of one backend needs PostgreSQL 18")

    def flushes(self) -> int:
        """How often this session itself made the WAL durable. A statement's figures are there after it."""
        query = sa.text(
            "select coalesce(sum(fsyncs), 0)::int as n from pg_stat_get_backend_io(pg_backend_pid()) "
            "where object = 'wal'"
        )
        self.db.all(sa.text("select pg_stat_force_next_flush()"))
        return int(self.db.all(query)[0].n)


def _run_one_step(one: OneSession, thread_id: str, workflow=flows.ten) -> tuple[int, int]:
    """Flushes of the claim and of the commit."""
    born = births.start(one.db, workflow, thread_id, {}, max_state_bytes=10**6)
    who = claims.Claimant(owner=uuid4(), executor="1:1", known=json.dumps({workflow.name: 1}))
    before = one.flushes()
    claim = claims.claim(one.db, claims.Delivery(case=born.id, seq=0), who, uuid4())
    claimed = one.flushes()
    copy = states.load(workflow.state, claim.state)
    view = View(workflow=workflow, step=workflow.first, before=claim.state)
    decision = decide(view, Returned(value={"log": ["x"]}, copy=copy))
    stored = commits.weigh(claim, decision, max_state_bytes=10**6)
    assert commits.commit(one.db, claim, decision, stored, version=1, took=0.0)
    return claimed - before, one.flushes() - claimed


def test_the_claim_does_not_flush_and_the_commit_flushes_once(database_url: str) -> None:
    one = OneSession(database_url)
    for attempt in range(5):
        claim, commit = _run_one_step(one, f"A{attempt}")
        assert claim == 0, "a lost claim does no harm, so it needs no flush"
        assert commit == 1


def test_inline_the_next_lease_is_taken_by_the_commits_own_flush(database_url: str) -> None:
    one = OneSession(database_url)
    born = births.start(one.db, flows.ten, "A", {}, max_state_bytes=10**6)
    who = claims.Claimant(owner=uuid4(), executor="1:1", known=json.dumps({"ten": 1}))
    claim = claims.claim(one.db, claims.Delivery(case=born.id, seq=0), who, uuid4())
    for seq in range(1, 6):
        before = one.flushes()
        step = flows.ten.steps[claim.step]
        decision = decide(
            View(workflow=flows.ten, step=step, before=claim.state),
            Returned(value={"log": ["x"]}, copy=states.load(flows.ten.state, claim.state)),
        )
        stored = commits.weigh(claim, decision, max_state_bytes=10**6)
        claim = commits.commit(one.db, claim, decision, stored, version=1, took=0.0, onward=uuid4()).next
        assert one.flushes() - before == 1
        assert (claim.delivery.seq, claim.step) == (seq, f"s{seq + 1}")


def test_under_in_doubt_hold_the_claim_is_durable_before_the_call(database_url: str) -> None:
    claim, commit = _run_one_step(OneSession(database_url), "A", flows.careful)
    assert claim == 1, "the claim is the record of the intent to call"
    assert commit == 1


def test_almost_every_update_of_a_head_is_hot(client: Client, start_worker, db: Database) -> None:
    worker = start_worker(concurrency=2)
    for i in range(30):
        client.start("ten", f"A{i}", {})
    for i in range(30):
        client.wait("ten", f"A{i}", 30)
    worker.stop()  # a session reports its figures at its end
    counted = sa.text(
        "select n_tup_upd as updates, n_tup_hot_upd as hot from pg_stat_user_tables "
        "where schemaname = 'keepstep' and relname = 'heads'"
    )
    # a claim and a commit for each step, but for the last commit, which deletes the head
    row = eventually(lambda: (r := db.all(counted)[0]).updates >= 30 * 19 and r)
    print(f"{row.hot} of {row.updates} updates were HOT")
    assert row.hot / row.updates > 0.8
