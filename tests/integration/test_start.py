"""A case is started once for each thread id, and bad input makes none."""

from __future__ import annotations

import socket
import threading
import time

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from keepstep import (
    BadState,
    BadThreadId,
    CaseConflict,
    Client,
    DatabaseUnavailable,
    StartPending,
    UnknownCase,
    UnknownWorkflow,
    Workflow,
)
from keepstep.checkpoint import births
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import StateTooLarge
from tests import flows
from tests.support.eventually import eventually

COUNT = sa.text(
    "select (select count(*) from keepstep.cases) + (select count(*) from keepstep.heads) "
    "+ (select count(*) from keepstep.checkpoints) as n"
)


def test_the_same_thread_id_returns_the_same_case(client: Client) -> None:
    first, second = client.start("ten", "A", {"seconds": 1}), client.start("ten", "A", {"seconds": 1.0})
    assert (first.new, second.new) == (True, False)
    assert first.id == second.id
    assert client.start("approve", "A", {}).id != first.id, "a thread id is unique within its workflow only"


def test_true_is_another_input_than_one(client: Client) -> None:
    client.start("ten", "A", {"value": [1]})
    assert not client.start("ten", "A", {"value": (1.0,)}).new
    with pytest.raises(CaseConflict):
        client.start("ten", "A", {"value": [True]})


def test_another_input_is_refused(client: Client) -> None:
    client.start("ten", "A", {})
    with pytest.raises(CaseConflict, match="ten/A: it was started before with another input"):
        client.start("ten", "A", {"seconds": 1})


def test_a_new_default_in_the_model_refuses_nobody(client: Client) -> None:
    class Old(BaseModel):
        name: str

    class New(BaseModel):
        name: str
        added: int = 7

    for model in (Old, New):
        workflow = Workflow("grown", state=model)
        workflow.step(_nothing)
        with Client(settings=client.settings, workflows=[]) as fresh:
            assert fresh.start(workflow, "A", {"name": "x"}).new == (model is Old)
            assert not fresh.start(workflow, "A", model(name="x")).new


def _nothing(state, call):
    return None


@pytest.mark.parametrize(
    ("thread_id", "word"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("x" * 300, "300 characters"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        (7, "int"),
    ],
)
def test_a_bad_thread_id_is_refused(client: Client, db: Database, thread_id, word: str) -> None:
    with pytest.raises(BadThreadId, match=word):
        client.start("ten", thread_id, {})
    with pytest.raises(BadThreadId, match=word):
        client.get("ten", thread_id)
    assert db.all(COUNT)[0].n == 0


@pytest.mark.parametrize(
    ("state", "path", "word"),
    [
        ({"value": float("nan")}, "/value", "nan"),
        ({"value": [1, {"x": float("-inf")}]}, "/value/1/x", "inf"),
        ({"value": "\udfff"}, "/value", "surrogate"),
        ({"value": object()}, "/value", "object"),
        ({"value": {1: 2}}, "/value", "key"),
        ({"log": "x"}, "/log", "array"),
        ({"seconds": "many"}, "/seconds", "number"),
    ],
)
def test_a_bad_state_is_refused_with_its_path(client: Client, db: Database, state, path: str, word: str) -> None:
    with pytest.raises(BadState, match=word) as refused:
        client.start("ten", "A", state)
    assert refused.value.path == path
    assert "ten/A" in str(refused.value)
    assert db.all(COUNT)[0].n == 0


def test_a_state_of_20_mb_is_refused_before_anything_is_written(client: Client, db: Database) -> None:
    with pytest.raises(StateTooLarge, match=r"ten/A.*20,000,.*largest field is /value"):
        client.start("ten", "A", {"value": "x" * 20_000_000})
    assert db.all(COUNT)[0].n == 0


def test_odd_thread_ids_are_just_text(client: Client) -> None:
    for thread_id in ("x" * 255, "a/b", "../etc", "'; drop table cases; --", "%s %(x)s :id", "ü🙂\u202e", '{"a": 1}'):
        client.start("ten", thread_id, {})
        assert client.get("ten", thread_id).thread_id == thread_id


def test_unknown_names_are_refused(client: Client) -> None:
    with pytest.raises(UnknownWorkflow, match=r"'nope'; loaded: .*ten"):
        client.start("nope", "A", {})
    with pytest.raises(UnknownCase, match="ten/A: no such case"):
        client.get("ten", "A")


def test_a_start_that_another_transaction_holds_is_pending_not_for_ever(
    db: Database, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(births, "LOCK_TIMEOUT_MS", 300)
    with db.transaction() as theirs:
        births.start(db, flows.ten, "A", {}, max_state_bytes=10**6, connection=theirs)
        with pytest.raises(StartPending, match="ten/A"):
            client.start("ten", "A", {})
    assert not client.start("ten", "A", {}).new


def test_of_two_starts_at_once_the_second_waits_for_the_first(db: Database, client: Client) -> None:
    results: list[bool] = []
    with db.transaction() as first:
        births.start(db, flows.ten, "A", {}, max_state_bytes=10**6, connection=first)
        second = threading.Thread(target=lambda: results.append(client.start("ten", "A", {}).new))
        second.start()
        blocked = sa.text("select count(*) as n from pg_stat_activity where wait_event_type = 'Lock'")
        eventually(lambda: db.all(blocked)[0].n, message="the second start really blocks")
        assert results == []
    second.join(10)
    assert results == [False]


def test_a_conflict_does_not_abort_the_callers_transaction(db: Database, client: Client) -> None:
    client.start("ten", "A", {})
    with db.transaction() as theirs:
        with pytest.raises(CaseConflict):
            births.start(db, flows.ten, "A", {"seconds": 1}, max_state_bytes=10**6, connection=theirs)
        births.start(db, flows.ten, "B", {}, max_state_bytes=10**6, connection=theirs)
    assert client.get("ten", "B").status == "queued"


def test_a_rolled_back_start_leaves_no_case(db: Database, client: Client) -> None:
    class ChangedMyMind(Exception):
        pass

    def start_and_regret() -> None:
        with db.transaction() as theirs:
            births.start(db, flows.ten, "A", {}, max_state_bytes=10**6, connection=theirs)
            raise ChangedMyMind

    with pytest.raises(ChangedMyMind):
        start_and_regret()
    assert db.all(COUNT)[0].n == 0


@pytest.mark.parametrize("broker", ["refuses", "is silent", "has no name"])
def test_a_broker_that_is_away_keeps_no_caller(database_url: str, broker: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = {
            "refuses": "127.0.0.1:1",
            "is silent": f"127.0.0.1:{silent.getsockname()[1]}",
            "has no name": "x.invalid",
        }
        with Client(database_url, f"redis://{where[broker]}/0", workflows=[flows.ten]) as client:
            began = time.monotonic()
            assert client.start("ten", "A", {}).new
            assert time.monotonic() - began < 1.0, "the promise to the caller, not a measurement"
            assert client.get("ten", "A").status == "queued"


def test_a_database_that_is_down_is_one_clear_error() -> None:
    with (
        Client("postgresql://someone:secret@127.0.0.1:1/x", "redis://127.0.0.1:1/0", workflows=[flows.ten]) as lost,
        pytest.raises(DatabaseUnavailable) as refused,
    ):
        lost.start("ten", "A", {})
    assert "127.0.0.1:1" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_start_that_is_repeated_because_its_reply_was_lost_is_new(db: Database, client: Client) -> None:
    [planned] = [births._plan(flows.ten, "A", {"seconds": 1}, 10**6)]
    common = births._common(flows.ten, births.DEFAULT_TERMS) | {"patience": "1000"}
    first, again = (births._insert_by_itself(db, flows.ten, [planned], common, births.DEFAULT_TERMS) for _ in range(2))
    assert first == again
    assert again[planned.run].new
    assert again[planned.run].ring is not None
    assert not client.start("ten", "A", {"seconds": 1}).new, "somebody else's start is another matter"
