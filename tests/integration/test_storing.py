"""Export, erasure, and what takes room; secrets are in none of what is shown."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa

from keepstep import Client, UnknownCase, fail
from keepstep.checkpoint import commits
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.tables import metadata
from keepstep.cli import main
from keepstep.config.settings import settings
from keepstep.steps.decide import Decision
from keepstep.steps.errors import AlreadyDecided, CaseErased, NotErasable
from keepstep.steps.moves import Status
from tests import flows, secret_flows
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.hand import Hand
from tests.support.stages import WF, bring

SECRETS = ("t0ken-of-hers", "0815-number", "4711-number", "99887766")


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


@pytest.fixture
def cli(
    database_url: str, broker_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """A command in this process; what it printed, on stdout and stderr together."""
    monkeypatch.setenv("KEEPSTEP_DATABASE_URL", database_url)
    monkeypatch.setenv("KEEPSTEP_BROKER_URL", broker_url)
    monkeypatch.setenv("KEEPSTEP_WORKFLOWS", "")
    settings.cache_clear()

    def run(*args: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main.run(args) == code, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run


@pytest.fixture
def private(db: Database, client: Client) -> None:
    """A case of `telling` with everything in it that may hold a secret."""
    state = {"token": "t0ken-of-hers", "pin": 99887766, "people": [{"name": "Ann", "number": "0815-number"}]}
    client.start(secret_flows.telling, "T", state)
    client.signal("telling", "T", "answer", {"name": "Eve", "number": "4711-number"}, actor="eve")
    hand = Hand(db, known='{"telling": 1}')
    claim = hand.claim(client.get("telling", "T").id)
    assert claim is not None
    client.cancel("telling", "T")
    commits.record_late(db, claim, late_result(claim.state))


def late_result(state: Any) -> Decision:
    return Decision(move="complete", status=Status.COMPLETED, state={**state, "token": "t0ken-of-hers-renewed"})


def test_the_export_has_every_row_of_the_case_and_no_other(client: Client, hand: Hand, db: Database) -> None:
    ring = bring(hand, client, "waiting")
    client.signal(WF, "A", "approval", {"approved": True, "note": "nul \0 and ünïcode"})
    claim = hand.claim(ring, 2)
    assert claim is not None
    hand.commit(claim, fail("no"))
    hand.start("B")
    lines = [json.loads(json.dumps(row)) for row in client.export(WF, "A")]
    counted: dict[str, int] = {}
    for line in lines:
        counted[line["table"]] = counted.get(line["table"], 0) + 1
    for table in metadata.tables.values():
        key = "case_id" if "case_id" in table.columns else "id"
        if table.name in ("nodes", "codes", "erasures"):
            continue
        stored = db.all(sa.text(f"select count(*) as n from {table} where {key} = :id"), {"id": ring.case})[0].n
        assert counted.get(table.name, 0) == stored, table.name
    assert counted["attempts"] == 1
    [sent] = [line["row"] for line in lines if line["table"] == "signals"]
    assert sent["payload"]["note"] == "nul \0 and ünïcode"
    with pytest.raises(UnknownCase):
        next(client.export(WF, "nobody"))


def test_an_export_takes_the_children_along(client: Client, hand: Hand, db: Database) -> None:
    parent, child = hand.start("parent"), hand.start("child")
    db.run(sa.text("update keepstep.cases set parent = :p where id = :id"), {"p": parent.case, "id": child.case})
    cases = [line["row"]["thread_id"] for line in client.export("ten", "parent") if line["table"] == "cases"]
    assert cases == ["parent", "child"]


@pytest.mark.usefixtures("private")
def test_an_export_hides_secrets_unless_it_goes_into_a_file_of_its_owners(
    cli: Callable[..., str], tmp_path: Path
) -> None:
    printed = cli("export", "telling", "T")
    assert not [secret for secret in SECRETS if secret in printed]
    assert "Ann" in printed
    assert "--out" in cli("export", "telling", "T", "--with-secrets", code=2)
    file = tmp_path / "case.jsonl"
    cli("export", "telling", "T", "--with-secrets", "--out", str(file))
    assert all(secret in file.read_text() for secret in SECRETS)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert "can't be written" in cli("export", "telling", "T", "--out", str(file), code=2)
    none = tmp_path / "none.jsonl"
    cli("export", "telling", "nobody", "--out", str(none), code=3)
    assert not none.exists()


@pytest.mark.usefixtures("private")
@pytest.mark.parametrize(
    "command",
    [
        ("show", "telling", "T"),
        ("show", "telling", "T", "--json"),
        ("show", "telling", "T", "--full"),
        ("why", "telling", "T"),
        ("history", "telling", "T"),
        ("history", "telling", "T", "--json"),
        ("diff", "telling", "T", "0", "0"),
        ("calls", "telling", "T"),
        ("list", "--json"),
        ("inbox", "--json"),
    ],
)
def test_no_command_shows_a_secret(cli: Callable[..., str], command: tuple[str, ...]) -> None:
    printed = cli(*command)
    assert not [secret for secret in SECRETS if secret in printed], printed


def test_a_second_decision_isnt_told_a_first_one_that_may_be_secret(client: Client, db: Database) -> None:
    client.start(secret_flows.telling, "T", {})
    client.signal("telling", "T", "answer", {"name": "Eve", "number": "4711-number"})
    with pytest.raises(AlreadyDecided) as refused:
        client.signal("telling", "T", "answer", {"name": "Eve", "number": "other"})
    assert "4711" not in str(refused.value)
    assert refused.value.first == {"name": "Eve", "number": "4711-number"}, "the caller's code may need it"
    assert db.all(sa.text("select secrets from keepstep.cases"))[0].secrets == list(secret_flows.telling.secrets)


def test_an_erased_case_leaves_a_tombstone_and_no_word_of_what_it_was(
    client: Client, hand: Hand, db: Database, cli: Callable[..., str]
) -> None:
    ring = bring(hand, client, "waiting")
    child = hand.start("a-child")
    db.run(sa.text("update keepstep.cases set parent = :p where id = :id"), {"p": ring.case, "id": child.case})
    with pytest.raises(NotErasable, match="cancel"):
        client.erase(WF, "A")
    client.cancel(WF, "A", actor="ops", reason="of A")
    with pytest.raises(NotErasable, match="a-child"):
        client.erase(WF, "A")
    client.cancel("ten", "a-child")
    client.fork(WF, "A", at=0, new_thread_id="copy", repeat_effects=True)
    assert "--yes" in cli("erase", WF, "A", code=2)
    printed = cli("erase", WF, "A", "--yes", "--actor", "dpo", "--reason", "art. 17")
    assert "approve/A is erased, with 1 children" in printed
    assert "copy" in printed
    left = [str(row) for t in metadata.tables.values() for row in db.all(sa.text(f"select t::text from {t} t"))]
    assert not [row for row in left if str(ring.case) in row and "dpo" not in row]
    assert not [row for row in left if str(child.case) in row or '"from": "A"' in row or "of A" in row]
    [stone] = db.all(sa.text("select * from keepstep.erasures"))
    assert (stone.case_id, stone.workflow, stone.children, stone.actor) == (ring.case, WF, 1, "dpo")
    assert "erased" in cli("show", WF, "A", code=3)
    for act in (lambda: client.get(WF, "A"), lambda: client.erase(WF, "A"), lambda: next(client.export(WF, "A"))):
        with pytest.raises(CaseErased, match="by dpo"):
            act()


def test_a_late_result_doesnt_bring_back_what_was_erased(client: Client, hand: Hand, db: Database) -> None:
    claim = hand.claim(hand.start("A", flows.once))
    assert claim is not None
    client.cancel("once", "A")
    client.erase("once", "A", actor="dpo")
    assert hand.commit(claim) is None
    commits.record_late(db, claim, hand.decide(claim))
    assert db.all(sa.text("select * from keepstep.attempts")) == []


def test_what_takes_room_is_told_by_table_and_workflow_with_what_is_wrong(
    client: Client, hand: Hand, db: Database, cli: Callable[..., str]
) -> None:
    for number in range(30):
        hand.start(f"E{number}", flows.once)
    client.cancel_many(workflow="once")
    hand.start("live")
    db.run(sa.text("delete from keepstep.hooks"), {})
    room = client.size()
    assert room.warnings == ["once keeps 30 ended cases for ever: it had no retention when they started. Declare one, "
                             "and delete old ones: keepstep prune --workflow once --older-than 90d"]  # fmt: skip
    by_name = {one.workflow: one for one in room.workflows}
    assert (by_name["once"].ended, by_name["once"].live, by_name["ten"].live) == (30, 0, 1)
    assert by_name["once"].bytes > by_name["ten"].bytes > 0
    assert not room.estimated
    assert {t.name for t in room.tables} == {t.name for t in metadata.tables.values()}
    db.run(sa.text("alter table keepstep.heads set (autovacuum_enabled = false)"), {})
    late = "update keepstep.cases set expires_at = clock_timestamp() - interval '2 hours' where status is not null"
    db.run(sa.text(late), {})
    printed = cli("size")
    assert "autovacuum is off for heads" in printed
    assert "30 cases of once are past their retention" in printed
    assert json.loads(cli("size", "--json"))["tables"][0]["bytes"] > 0


def test_prune_says_what_goes_and_asks_before_it_deletes_by_age(
    client: Client, hand: Hand, db: Database, cli: Callable[..., str]
) -> None:
    for number in range(3):
        hand.start(f"E{number}")
    client.cancel_many(workflow="ten")
    db.run(sa.text("delete from keepstep.hooks"), {})
    db.run(sa.text("update keepstep.cases set expires_at = clock_timestamp() where thread_id = 'E0'"), {})
    assert cli("prune", "--dry-run") == "ten: 1 cancelled\n1 cases would go\n"
    assert cli("prune") == "ten: 1 cancelled\n1 cases are gone\n"
    by_age = ("prune", "--workflow", "ten", "--older-than", "0s")
    assert "prune would delete 2 cases" in cli(*by_age, code=2)
    assert json.loads(cli(*by_age, "--yes", "--json").rpartition("]")[0] + "]")[0]["cases"] == 2
    assert "give both" in cli("prune", "--workflow", "ten", code=2)
    assert client.list() == []


def test_the_size_of_much_is_estimated_from_a_sample(
    client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        hand.start(f"A{number}", state={"log": ["x" * 500]})
    exact = client.size().workflows[0].bytes
    monkeypatch.setattr("keepstep.checkpoint.room.SAMPLED", 64 * 1024)
    about = client.size()
    assert about.estimated
    assert 0.3 * exact < about.workflows[0].bytes < 3 * exact


@pytest.mark.slow
def test_neither_a_workers_log_nor_an_error_nor_an_event_shows_what_a_step_tells(
    client: Client, start_worker: StartWorker, db: Database, broker_url: str
) -> None:
    worker = start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.secret_flows", "KEEPSTEP_LOG_LEVEL": "DEBUG"})
    with redis.Redis.from_url(broker_url) as valkey, valkey.pubsub() as events:
        events.psubscribe("*")
        state = {"token": "t0ken-of-hers", "pin": 99887766, "people": [{"name": "Ann", "number": "0815-number"}]}
        client.start(secret_flows.telling, "T", state)
        client.signal("telling", "T", "answer", {"name": "Eve", "number": "4711-number"})
        eventually(lambda: client.get("telling", "T").status == "held")
        heard = str(list(iter(lambda: events.get_message(timeout=0.5), None)))
    reason = client.get("telling", "T").reason
    assert reason is not None
    assert "was refused" in reason["message"]
    attempts = str(db.all(sa.text("select error::text from keepstep.attempts")))
    logged = worker.log.read_text()
    assert "the token is ***" in logged
    assert "was refused" in attempts
    for shown in (json.dumps(reason), attempts, logged, heard):
        assert not [secret for secret in SECRETS if secret in shown], shown


def test_an_error_of_the_database_shows_no_value(db: Database, hand: Hand) -> None:
    case = hand.start("A").case
    wrong = sa.text("update keepstep.heads set status = :status, reason = cast(:reason as json) where id = :id")
    with pytest.raises(sa.exc.IntegrityError) as refused:
        db.run(wrong, {"id": case, "status": "nonsense", "reason": '{"message": "t0ken-of-hers"}'})
    assert "t0ken" not in str(refused.value)
    assert "t0ken" not in str(refused.value.orig)
    assert "heads_status" in str(refused.value)
