"""`keepstep check` on a database: every live case is looked at once, nothing is written."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow, wait_for
from keepstep.checkpoint import inflight
from keepstep.checkpoint.database import Database
from keepstep.workers.check import check
from keepstep.workers.registry import Registry
from tests import flows
from tests.acceptance.cli import Cli
from tests.flows import State
from tests.support.hand import Hand


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inflight, "BATCH", 3)


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def test_every_live_case_is_read_once_and_a_sample_is_as_large_as_was_asked(
    client: Client, db: Database, small_batches: None
) -> None:
    client.start_many("ten", [(f"A{n}", {}) for n in range(10)])
    client.cancel("ten", "A0")
    known = {"ten": 1}
    assert sorted(case.thread_id for case in inflight.each(db.all, known)) == [f"A{n}" for n in range(1, 10)]
    for _ in range(20):
        found = [case.thread_id for case in inflight.each(db.all, known, sample=5)]
        assert len(set(found)) == len(found) == 5
    assert len(list(inflight.each(db.all, known, sample=50))) == 9
    assert list(inflight.each(db.all, known, workflows=["other"])) == []


def test_cases_are_counted_by_what_would_become_of_them(client: Client, db: Database) -> None:
    client.start_many("ten", [(f"A{n}", {}) for n in range(7)])
    db.run(sa.text("update keepstep.heads set step = 'gone' where id in (select id from keepstep.heads limit 2)"), {})
    before = db.all(sa.text("select h::text, xmin::text from keepstep.heads h order by id"))
    checked = check(db, Registry(flows.ALL))
    [trouble] = checked.troubles
    assert (trouble.workflow, trouble.verdict, trouble.cases, len(trouble.examples)) == ("ten", "held", 2, 2)
    assert (checked.cases, checked.ready, checked.passes()) == ({"ten": 7}, 5, False)
    assert db.all(sa.text("select h::text, xmin::text from keepstep.heads h order by id")) == before
    assert check(db, Registry([flows.once])).troubles[0].why == "its workflow isn't loaded"
    assert check(db, Registry([flows.once]), workflows=["once"]).passes()


def test_what_a_case_waits_for_and_what_was_kept_for_it_is_looked_at(hand: Hand, db: Database) -> None:
    """As it is stored, with a state and a prompt that have a NUL in them."""
    ring = hand.start("A", flows.ten, {"value": "a\0b"})
    asked = wait_for("ok", into="value", prompt={"nul": "\0"}, default="\0", timeout=60.0)
    hand.step(ring, 0, asked)
    db.run(
        sa.text(
            "insert into keepstep.signals (case_id, name, payload, schema_version) "
            "select id, 'later', '\"\\u0000\"', 1 from keepstep.heads"
        ),
        {},
    )
    [case] = inflight.each(db.all, {"ten": 2})
    assert case.state is not None
    assert case.state["value"] == "a\0b"
    assert [(w["name"], w["into"], w["then"]["step"], w["default"]) for w in case.waits] == [
        ("ok", "value", "s2", ["\0"])
    ]
    assert list(case.signals) == [{"name": "later", "version": 1, "payload": "\0"}]
    moved = Workflow("ten", state=State, schema_version=2)
    moved.step(lambda state, call: None, name="other")
    moved.upcast(from_version=1)(lambda stored: stored)
    moved.upcast(from_version=1, signal="later")(lambda payload: payload["not an object"])
    whys = [trouble.why for trouble in check(db, Registry([moved])).troubles]
    assert any("its wait for ok leads to the step s2" in why for why in whys)
    assert any("the signal later" in why for why in whys)


@pytest.mark.slow
def test_the_command_prints_a_table_and_exits_with_what_a_pipeline_needs(
    client: Client, db: Database, worker_env: dict[str, str], database_url: str
) -> None:
    cli = Cli(worker_env)
    client.start_many("ten", [(f"A{n}", {}) for n in range(3)])
    fine = cli("check")
    assert (fine.code, "3 live cases: this code goes on with 3, and not with 0" in fine.out) == (0, True)
    db.run(sa.text("update keepstep.heads set queue = 'nobody'"), {})
    assert (cli("check").code, cli("check", "--strict").code) == (0, 1)
    db.run(sa.text("update keepstep.heads set step = 'gone', queue = 'keepstep'"), {})
    bad = cli(
        "check", "--against", database_url, KEEPSTEP_DATABASE_URL="postgresql://nowhere.invalid/none", COLUMNS="300"
    )
    assert bad.code == 1
    assert "held" in bad.out
    assert "the step gone, which this code doesn't have" in bad.out
    told = cli("check", "--json", "--sample", "2")
    assert told.code == 1
    assert '"cases": 2' in told.out
    cli("check", "--workflow", "none").refuses(3)
    cli("check", KEEPSTEP_WORKFLOWS="").refuses(2)
