"""Two versions of a workflow on one database: what the older one left behind, the newer one goes on with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from keepstep import Client, Workflow, wait_for
from keepstep.checkpoint import nodes, recovery
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import Node
from keepstep.steps.errors import AlreadyDecided, BadPayload, BadState
from keepstep.steps.keys import idempotency_key
from keepstep.testing import Runner
from tests import flows
from tests.support.hand import LIMITS, Hand

ran: list[tuple[int, str, str]] = []
"""Version, step and key of each call."""


class V1(BaseModel):
    name: str
    answer: str | None = None
    log: list[str] = []


class Answer(BaseModel):
    yes: bool


class V2(BaseModel):
    given: str
    family: str = ""
    answer: Answer | None = None
    log: list[str] = []


def note(version: int) -> Callable[..., dict[str, Any]]:
    def step(state: Any, call: Any) -> dict[str, Any]:
        ran.append((version, call.step, call.key))
        return {"log": [*state.log, f"v{version} {call.step}"]}

    return step


def v1() -> Workflow:
    workflow = Workflow("flow", state=V1, schema_version=1)
    workflow.step(note(1), name="first")
    workflow.step(lambda state, call: wait_for("go"), name="hold_on")
    workflow.step(lambda state, call: wait_for("answer", into="answer"), name="ask")
    workflow.step(note(1), name="old")
    workflow.step(note(1), name="last")
    return workflow


def split(stored: dict[str, Any]) -> dict[str, Any]:
    stored["given"], _, stored["family"] = stored.pop("name").partition(" ")
    if stored.get("answer") is not None:
        stored["answer"] = {"yes": stored["answer"] == "yes"}
    return stored


def v2(upcaster: Callable[..., Any] = split, **options: Any) -> Workflow:
    workflow = Workflow("flow", state=V2, schema_version=2, **{"removed": {"old": "last"}, **options})
    workflow.step(note(2), name="first")
    workflow.step(lambda state, call: wait_for("go"), name="hold_on")
    workflow.step(lambda state, call: wait_for("answer", into="answer", payload=Answer), name="ask")
    workflow.step(note(2), name="last")
    workflow.upcast(from_version=1)(upcaster)
    workflow.upcast(from_version=1, signal="answer")(lambda stored: {"yes": stored == "yes"})
    return workflow


@pytest.fixture
def runs(database_url: str) -> Iterator[Callable[[Workflow], Runner]]:
    """Workers of this code, one after the other."""
    ran.clear()
    made: list[Runner] = []

    def run(workflow: Workflow) -> Runner:
        made.append(Runner(database_url, [workflow]))
        return made[-1]

    yield run
    for runner in made:
        runner.close()


Runs = Callable[[Workflow], Runner]

VERSIONS = sa.text("select seq, kind, schema_version, is_snapshot, step, target from keepstep.checkpoints order by seq")


def stand_at(runner: Runner, signal: str | None = None) -> Any:
    """A case of this code that waits: at `hold_on`, or, after its signal, at `ask`."""
    case = runner.start("flow", "A", {"name": "Ada Lovelace"})
    runner.run_until("waiting")
    if signal is not None:
        runner.signal(case, "go")
        runner.run_until("waiting")
    return case


def test_a_case_of_the_older_version_goes_on_in_the_newer_one_and_is_written_back_by_its_next_step(
    runs: Runs, db: Database
) -> None:
    case = stand_at(runs(v1()))
    new = runs(v2())
    assert [row.schema_version for row in db.all(VERSIONS)] == [1, 1, 1], "nothing is rewritten by being looked at"
    new.signal(case, "go")
    new.run_until("waiting", case=case)
    rows = db.all(VERSIONS)
    assert [row.schema_version for row in rows] == [1, 1, 1, 1, 2]
    assert [row.is_snapshot for row in rows][-1], "the whole upcast state, which later deltas can stand upon"
    assert new.get(case).state == {
        "given": "Ada", "family": "Lovelace", "answer": None, "log": ["v1 first"]
    }  # fmt: skip


def test_a_question_of_the_older_version_is_answered_in_its_own_shape(runs: Runs) -> None:
    case = stand_at(runs(v1()), "go")
    new = runs(v2())
    with pytest.raises(BadPayload, match="answer"):
        new.signal(case, "answer", {"yes": True})
    new.signal(case, "answer", "yes")
    new.run()
    assert new.get(case).state["answer"] == {"yes": True}
    assert new.get(case).status == "completed"


def test_an_answer_that_came_before_the_deploy_is_upcast_for_the_question_that_came_after_it(
    runs: Runs, db: Database
) -> None:
    old = runs(v1())
    case = stand_at(old)
    assert old.signal(case, "answer", "yes").fate == "kept"
    new = runs(v2())
    new.signal(case, "go")
    new.run()
    assert new.get(case).status == "completed"
    assert new.get(case).state["answer"] == {"yes": True}


def test_an_answer_that_can_not_be_upcast_is_kept_and_shown_and_the_question_stays_open(runs: Runs) -> None:
    old = runs(v1())
    case = stand_at(old)
    old.signal(case, "answer", "yes")

    def broken(stored: Any) -> Any:
        raise ValueError("who knows")

    code = v2()
    code.upcasts._of["signal", "answer"][1] = broken
    new = runs(code)
    new.signal(case, "go")
    new.run()
    assert new.get(case).status == "waiting"
    [refused] = [
        e.detail["refused"] for e in new.client.history("flow", "A") if e.kind == "sent" and e.step == "answer"
    ]
    assert "signal answer can't be brought from version 1 to 2" in refused
    assert "who knows" in refused
    new.signal(case, "answer", {"yes": False})
    new.run()
    assert new.get(case).state["answer"] == {"yes": False}


def test_people_agree_across_a_deploy_whatever_shape_they_say_it_in(runs: Runs, db: Database) -> None:
    """Three must agree: one said so before the question, in the older shape; the others in its own."""

    def asks_three(code: Workflow) -> Workflow:
        step = code.steps["ask"]
        payload = Answer if code.schema_version == 2 else None
        code.steps["ask"] = replace(
            step, function=lambda state, call: wait_for("answer", into="answer", payload=payload, approvers=3)
        )
        return code

    old = runs(asks_three(v1()))
    case = stand_at(old)
    old.signal(case, "answer", "yes", actor="ann")
    new = runs(asks_three(v2()))
    new.signal(case, "go")
    new.run()
    assert [asked.votes for asked in new.client.inbox()] == [1]
    with Client(new.client.settings.database_url, workflows=()) as anybody:
        assert anybody.signal("flow", "A", "answer", {"yes": True}, actor="bob").fate == "counted"
        with pytest.raises(AlreadyDecided) as told:
            anybody.signal("flow", "A", "answer", {"yes": False}, actor="eve")
    assert told.value.first == {"yes": True}, "as the question takes it"
    assert new.signal(case, "answer", {"yes": True}, actor="ann").fate == "repeated"
    assert new.signal(case, "answer", {"yes": True}, actor="eve").fate == "delivered"
    new.run()
    assert new.get(case).state["answer"] == {"yes": True}


def test_older_code_neither_judges_nor_takes_a_newer_case(runs: Runs) -> None:
    new = runs(v2())
    case = new.start("flow", "A", {"given": "Ada"})
    new.run_until("waiting")
    new.signal(case, "go")
    new.run_until("waiting")
    old = runs(v1())
    assert old.signal(case, "answer", {"yes": True}).fate == "delivered", "its own field is a text, and has no say here"
    new.close()
    for _ in range(3):
        old.advance(minutes=1)
    standing = old.get(case)
    assert (standing.status, standing.step, standing.attempt, standing.failures) == ("queued", "last", 0, 0)
    told = old.client.why("flow", "A")
    assert "up to version 1 only" in told.sentence
    assert "is of version 2" in told.sentence
    newer = runs(v2())
    newer.run_until("completed", case=case)


def test_a_removed_step_is_passed_over_under_a_new_key(runs: Runs, db: Database) -> None:
    old = runs(v1())
    case = stand_at(old, "go")
    old.signal(case, "answer", "no")  # queued at `old`, which the new code doesn't have any more
    new = runs(v2())
    new.run_until("completed", case=case)
    assert new.get(case).state["log"] == ["v1 first", "v2 last"]
    [passed] = [row for row in db.all(VERSIONS) if row.kind == "skip"]
    assert (passed.step, passed.target, passed.schema_version, passed.is_snapshot) == ("old", "last", 2, True)


def test_a_removed_step_that_was_the_last_ends_its_case(runs: Runs) -> None:
    old = runs(v1())
    case = stand_at(old, "go")
    old.signal(case, "answer", "no")
    new = runs(v2(removed={"old": None}))
    new.run_until("completed", case=case)


@pytest.mark.parametrize(
    ("upcaster", "words", "path"),
    [
        (lambda stored: stored["surname"], ["from version 1 to 2", "KeyError"], "/surname"),
        (lambda stored: [stored], ["from version 1 to 2", "returned a list"], ""),
        (lambda stored: {**stored, "given": None}, ["V2/given", "stored as version 1, upcast to 2"], "/given"),
    ],
)
def test_a_bad_upcaster_holds_the_case_where_it_stands_and_a_retry_after_the_fix_goes_on(
    runs: Runs, db: Database, upcaster: Callable[..., Any], words: list[str], path: str
) -> None:
    case = stand_at(runs(v1()), "go")
    bad = runs(v2(upcaster, removed={}))
    db.run(sa.text("update keepstep.waits set then_target = :there"), {"there": json.dumps(LAST)})
    bad.signal(case, "answer", "yes")
    bad.run_until("held", case=case)
    held = bad.get(case)
    assert held.reason is not None
    assert all(word in held.reason["message"] for word in words), held.reason["message"]
    assert held.reason["path"] == path
    assert held.state == {"name": "Ada Lovelace", "answer": "yes", "log": ["v1 first"]}
    assert ran == ran[:1], "nothing was called"
    good = runs(v2())
    good.client.retry("flow", "A")
    good.run_until("completed", case=case)


LAST = {"step": "last", "queue": "keepstep", "timeout": 60.0, "in_doubt": "retry"}


def test_verbs_upcast_too(runs: Runs) -> None:
    case = stand_at(runs(v1()), "go")
    new = runs(v2())
    new.client.skip("flow", "A", update={"answer": {"yes": True}}, to="last")
    assert new.get(case).state == {
        "given": "Ada", "family": "Lovelace", "answer": {"yes": True}, "log": ["v1 first"]
    }  # fmt: skip
    new.client.rewind("flow", "A", to=1, repeat_effects=True)
    assert new.get(case).state["name"] == "Ada Lovelace", "as it was stored; upcast by the next step"
    new.client.restart("flow", "A", repeat_effects=True)
    assert new.get(case).state == {"given": "Ada", "family": "Lovelace", "answer": None, "log": []}
    new.run_until("waiting", case=case)


def test_a_restart_of_a_fork_loses_nothing_of_what_was_once_sent_without_a_word(runs: Runs) -> None:
    old = runs(v1())
    stand_at(old)
    old.client.fork("flow", "A", at=1, new_thread_id="B", repeat_effects=True)
    with pytest.raises(BadState, match=r"V2/name is unknown to this code \(version 2\)"):
        runs(v2()).client.restart("flow", "B", repeat_effects=True)


def test_a_step_may_be_renamed_and_keeps_its_key(runs: Runs, db: Database) -> None:
    old = runs(v1())
    case = stand_at(old, "go")
    old.signal(case, "answer", "no")
    before = db.all(sa.text("select run, step, seq from keepstep.heads h join keepstep.cases k on k.id = h.id"))[0]
    code = v2(removed={})
    code.step(note(2), name="renamed", aliases=["old"])
    new = runs(code)
    new.run_until("completed", case=case)
    assert (2, "old", str(idempotency_key(before.run, before.seq, "old"))) in [(v, s, str(k)) for v, s, k in ran]


def test_the_history_tells_what_code_wrote_each_checkpoint_also_when_its_worker_is_gone(
    database_url: str, db: Database
) -> None:
    def worker(name: str) -> Node:
        return Node(
            id=uuid4(), host="h", host_id="h", process="1:1", queues=(), workflows={}, pool="prefork", concurrency=1,
            version="0.1", code=name, fingerprints={"ten": f"print of {name}"},
        )  # fmt: skip

    one, two = worker("blue"), worker("green")
    hand = Hand(db)
    ring = hand.start("A")
    for seq, node in enumerate((one, two)):
        with db.connect() as connection:
            nodes.beat(connection, node)
        hand.claimant = replace(hand.claimant, owner=node.id)
        hand.step(ring, seq)
    assert nodes.remove(db, [one.id, two.id]) == 2
    with Client(database_url, workflows=flows.ALL) as client:
        told = [e.detail["code"] for e in client.history("ten", "A")]
        assert told == [
            None,
            {"code": "blue", "fingerprint": "print of blue", "keepstep": "0.1"},
            {"code": "green", "fingerprint": "print of green", "keepstep": "0.1"},
        ]
        assert client.written_by("ten", "A") == {"schema_version": 1, "code": told[-1]}
    assert nodes.forget_codes(db, 100) == 0, "a case of that time is there"
    db.run(sa.text("update keepstep.codes set until = until - interval '1 day' where node = :one"), {"one": one.id})
    assert nodes.forget_codes(db, 100) == 1


def test_what_another_version_has_dropped_is_rung_soon_and_only_while_somebody_can_load_it(
    database_url: str, db: Database
) -> None:
    def node(version: int) -> Node:
        return Node(
            id=uuid4(), host="h", host_id="h", process="1:1", queues=("keepstep",), workflows={"flow": version},
            pool="prefork", concurrency=1, version="0.1",
        )  # fmt: skip

    def beat(one: Node) -> Node:
        with db.connect() as connection:
            nodes.beat(connection, one)
        return one

    def rung() -> list[str]:
        return sorted(ring.thread_id for ring in recovery.ring_dropped(db, ["keepstep"], LIMITS, ahead=9.0))

    with Client(database_url, workflows=[v1()]) as old, Client(database_url, workflows=[v2()]) as new:
        old.start("flow", "of version 1", {"name": "Ada"})
        new.start("flow", "of version 2", {"given": "Ada"})
    aged = "update keepstep.heads set entered_at = entered_at - interval '2 seconds', due_at = clock_timestamp()"
    beat(node(1))
    db.run(sa.text(aged), {})
    assert (nodes.mixed(db), rung()) == (False, []), "nobody could take it: no use in ringing"
    newer = beat(node(2))
    assert nodes.mixed(db)
    assert rung() == ["of version 2"]
    db.run(sa.text(aged.replace("2 seconds", "0 seconds")), {})
    assert rung() == ["of version 2"]
    db.run(sa.text("update keepstep.heads set entered_at = clock_timestamp()"), {})
    assert rung() == [], "its message may just be on its way"
    nodes.remove(db, [newer.id])
    assert not nodes.mixed(db)
