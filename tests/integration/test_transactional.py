"""A transactional step's SQL and its checkpoint are committed together; what is fenced out is rolled back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Delivery
from keepstep.workers.engine import Engine
from keepstep.workers.execute import execute
from tests import transactional_flows
from tests.support.eventually import eventually

TABLES = """
create table booked (thread_id text, attempt int);
create table parents (id int primary key);
create table deferred (id int references parents deferrable initially deferred);
"""
WF = "transactional"


@pytest.fixture
def client(db: Database, database_url: str, broker_url: str) -> Iterator[Client]:
    db.run(sa.text(TABLES), {})
    with Client(database_url, broker_url, workflows=transactional_flows.ALL) as client:
        yield client


@pytest.fixture
def env() -> dict[str, str]:
    return {
        "KEEPSTEP_WORKFLOWS": "tests.transactional_flows",
        "KEEPSTEP_LEASE_SECONDS": "1",
        "KEEPSTEP_BEAT_SECONDS": "0.3",
    }


@pytest.fixture(params=["prefork", pytest.param("threads", marks=pytest.mark.slow)])
def run(client: Client, start_worker, env: dict[str, str], request: pytest.FixtureRequest):
    """Start a case; it, when it has ended, waits or is held."""
    start_worker(env=env, pool=request.param)

    def run(how: str, *, workflow: str = WF) -> Any:
        client.start(workflow, how, {"how": how})
        still = ("queued", "running", "sleeping")
        return eventually(lambda: (c := client.get(workflow, how)).status not in still and c, 30)

    return run


def booked(db: Database, thread_id: str) -> list[int]:
    rows = db.all(sa.text("select attempt from booked where thread_id = :t order by attempt"), {"t": thread_id})
    return [row.attempt for row in rows]


@pytest.mark.parametrize("how", ["", "savepoint"])
def test_what_it_writes_is_there_with_its_checkpoint(run, db: Database, how: str) -> None:
    case = run(how or "plain")
    assert (case.status, case.state["booked"], booked(db, how or "plain")) == ("completed", 1, [1])


def test_it_may_use_an_orm_session_which_only_commits_its_own_savepoint(run, db: Database) -> None:
    assert run("session").status == "completed"
    assert booked(db, "by a session") == [1]


@pytest.mark.parametrize("how", ["raise", "deferred"])
def test_what_raises_leaves_nothing_and_is_tried_again(run, client: Client, db: Database, how: str) -> None:
    case = run(how)
    assert (case.status, case.state["booked"]) == ("completed", 1), case.reason
    assert booked(db, how) == [2], "the first attempt left nothing"
    assert "raised" in {e.kind for e in client.history(WF, how)}


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_who_commits_or_rolls_back_is_held_at_once_and_leaves_nothing(run, db: Database, how: str) -> None:
    case = run(how)
    assert (case.status, booked(db, how)) == ("held", [])
    assert "neither committed nor rolled back" in case.reason["message"]


def test_a_session_setting_is_not_the_next_steps(run, client: Client, db: Database) -> None:
    run("set")
    assert run("show").state["booked"] == 0


@pytest.mark.parametrize("how", ["always swallow", "always raw commit"])
def test_who_ends_the_transaction_behind_our_back_is_told(run, client: Client, how: str) -> None:
    case = run(how)
    assert case.status == "held"
    assert "transaction" in case.reason["message"], case.reason


def test_a_bad_result_leaves_nothing_and_holds_the_case(run, db: Database) -> None:
    assert run("bad result").status == "held"
    assert booked(db, "bad result") == []


def test_a_case_that_fails_keeps_what_its_step_wrote_about_it(run, db: Database) -> None:
    assert run("fail").status == "failed"
    assert booked(db, "fail") == [1]


def test_it_may_lead_into_a_wait(run, client: Client, db: Database) -> None:
    assert run("wait").status == "waiting"
    assert booked(db, "wait") == [1]
    client.signal(WF, "wait", "answer", None)
    assert client.wait(WF, "wait", 20).state["booked"] == 1


def test_a_connection_that_is_cut_leaves_nothing_and_is_tried_again(run, db: Database) -> None:
    assert run("cut").status == "completed"
    assert booked(db, "cut") == [2]


def test_an_ordinary_step_has_no_connection_and_is_told_so(client: Client, start_worker, env) -> None:
    start_worker(env=env)
    client.start("ordinary", "x", {})
    told = eventually(lambda: [e for e in client.history("ordinary", "x") if e.kind == "raised"], 20)
    assert "transactional=True" in str(told[0].detail)


def test_a_killed_process_leaves_nothing_and_is_tried_again(client: Client, start_worker, env, db: Database) -> None:
    start_worker(env=env)
    client.start(WF, "kill", {"how": "kill"})
    assert client.wait(WF, "kill", 20).state["booked"] == 1
    assert booked(db, "kill") == [2]


@pytest.mark.slow
def test_a_transaction_that_idles_for_longer_than_a_lease_is_ended(run, db: Database) -> None:
    """A frozen worker must not hold its locks for ever; and what a slow step wrote is rolled back."""
    assert run("hang").status == "completed"
    assert booked(db, "hang") == [2]


def test_a_step_whose_lease_is_gone_leaves_nothing(client: Client, start_worker, env, db: Database) -> None:
    start_worker(env={**env, "KEEPSTEP_LEASE_SECONDS": "10"})
    client.start(WF, "hang", {"how": "hang"})
    eventually(lambda: client.get(WF, "hang").status == "running", 20)
    client.cancel(WF, "hang")
    late = eventually(lambda: [e for e in client.history(WF, "hang") if e.kind == "late"], 20)
    assert late
    assert booked(db, "hang") == []


def test_without_a_connection_for_its_transaction_it_is_tried_again_later(client: Client, db: Database) -> None:
    engine = Engine(settings=client.settings, db=db, registry=client.registry, bell=client._bell)
    engine.transactions = Database("postgresql+psycopg2://postgres@127.0.0.1:1/x", pool_size=1)
    started = client.start(WF, "A", {})
    execute(engine, Delivery(case=started.id, seq=0))
    case = client.get(WF, "A")
    assert (case.status, case.failures, case.crashes) == ("sleeping", 0, 0)
    assert [e.kind for e in client.history(WF, "A")] == ["start", "deferred"]
