"""What is asked: where an answer leads, what it may be, how it is given, and what is asked again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from keepstep import BadPayload, Client, Workflow, receive, wait_all, wait_for
from keepstep.checkpoint import waits
from keepstep.checkpoint.answers import answer_command, asks_for
from keepstep.checkpoint.database import Database
from keepstep.cli.main import cli
from keepstep.steps import state as states
from tests import flows
from tests.support.hand import Hand
from tests.support.several import YES, Ask, State, Verdict, approval, asking, several

edges = Workflow("edges", state=State)
edges.step(name="first", next=["ask"])(lambda state, call: None)
edges.step(name="never")(lambda state, call: None)
edges.step(name="ask", next=["first"])(lambda state, call: None)


class Short(BaseModel, extra="forbid"):
    approved: bool


class Signed(BaseModel):
    reason: str
    actor: str | None = None


class Loose(State):
    either: Short | Signed | None = None


loose = Workflow("loose", state=Loose)
loose.step(name="ask")(lambda state, call: None)


@pytest.fixture
def hand(db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, several, edges, loose])
    return Hand(db, known='{"several": 1, "edges": 1, "loose": 1}')


@pytest.fixture
def client(database_url: str, broker_url: str) -> Iterator[Client]:
    with Client(database_url, broker_url, workflows=[several, edges, loose]) as client:
        yield client


@pytest.fixture
def ask(hand: Hand) -> Ask:
    return asking(hand)


# ------------------------------------------------------------------------------------------------ where an answer leads
def test_an_answer_leads_along_the_only_declared_edge_as_a_plain_return_does(client: Client, hand: Hand) -> None:
    ring = hand.start("A", edges)
    hand.step(ring, 0, wait_for("x"))
    assert client.signal("edges", "A", "x").ring.step == "ask"
    hand.step(ring, 2, wait_for("x"))
    assert client.skip("edges", "A").step == "first"
    hand.step(ring, 4)
    assert client.get("edges", "A").step == "ask"
    assert client.skip("edges", "A").step == "first"


# ------------------------------------------------------------------------------------------------ what an answer may be
@pytest.mark.parametrize("payload", [Verdict, None], ids=["payload=", "the field's own type"])
def test_a_payload_with_an_alias_is_answered_by_the_names_of_its_fields_and_can_be_loaded(
    client: Client, ask: Ask, payload: Any
) -> None:
    ask(wait_for("v", into="verdict", payload=payload))
    with pytest.raises(BadPayload):
        client.signal("several", "A", "v", {"isOk": True})
    assert "is_ok" in str(client.waits("several", "A")[0]["schema"])
    assert client.signal("several", "A", "v", {"is_ok": True}).fate == "delivered"
    assert states.load(State, client.get("several", "A").state).verdict.is_ok is True


@pytest.mark.parametrize(
    "question",
    [
        {"prompt": {"text": "x\0y"}},
        {"timeout": 0, "default": "x\0y"},
        {"choices": ["x\0y"]},
        {"prompt": "\\u0000 and \\\\u0000"},
    ],
    ids=str,
)
def test_a_nul_in_a_question_survives(client: Client, ask: Ask, db: Database, question: dict[str, Any]) -> None:
    ring = ask(wait_for("a", into="a", **question))
    [wait] = client.waits("several", "A")
    assert wait["prompt"] == question.get("prompt")
    assert client.inbox()[0].prompt == question.get("prompt")
    if "default" in question:
        waits.expire(db, ring.case)
    else:
        client.signal("several", "A", "a", "x\0y")
    assert client.get("several", "A").state["a"] == "x\0y"


def test_waits_of_all_kinds_come_back_as_they_were_asked(client: Client, ask: Ask) -> None:
    ask(
        wait_all(
            wait_for("a", into="a", prompt=[1, None]), receive("chat", into="b"), approval(approvers=2, prompt="?")
        )
    )
    found = {wait["name"]: wait for wait in client.waits("several", "A")}
    assert [(w["prompt"], w["stream"], w["approvers"]) for w in (found["a"], found["chat"], found["approval"])] == [
        ([1, None], False, 1),
        (None, True, 1),
        ("?", False, 2),
    ]


def test_a_payload_that_would_make_the_state_too_large_is_refused_when_it_is_sent(client: Client, ask: Ask) -> None:
    most = client.settings.max_state_bytes
    ask(wait_for("b", into="b", update={"a": "x" * 900_000}))
    with pytest.raises(BadPayload, match="with it the state would have"):
        client.signal("several", "A", "b", "y" * (most - 500_000))
    assert client.signal("several", "A", "b", "y" * (most - 1_000_000)).fate == "delivered"


def test_a_payload_that_takes_the_place_of_a_large_one_is_not_too_large(client: Client, ask: Ask) -> None:
    most = client.settings.max_state_bytes
    ask(wait_for("a", into="a", update={"a": "x" * 900_000}))
    assert client.signal("several", "A", "a", "y" * (most - 100_000)).fate == "delivered"


def test_an_early_payload_that_would_make_the_state_too_large_is_kept_and_shown(
    client: Client, hand: Hand, db: Database
) -> None:
    most = client.settings.max_state_bytes
    ring = hand.start("A", several)
    client.signal("several", "A", "b", "y" * (most - 500_000))
    hand.step(ring, 0, wait_for("b", into="b", update={"a": "x" * 900_000}))
    assert waits.deliver(db, ring.case, max_bytes=most) is None
    [sent] = [event for event in client.history("several", "A") if event.kind == "sent"]
    assert "the state would have" in sent.detail["refused"]


# ---------------------------------------------------------------------------------------------------------- who answers
def test_who_decided_is_filled_in_through_references_and_alternatives(client: Client, ask: Ask) -> None:
    ask(wait_for("approval", into="approval"))  # of the field's type, which is Approval or null
    client.signal("several", "A", "approval", YES, actor="ann")
    assert client.get("several", "A").state["approval"] == {"approved": True, "actor": "ann"}


def test_who_decided_is_not_filled_into_what_has_no_place_for_it(client: Client, hand: Hand) -> None:
    hand.step(hand.start("A", loose), 0, wait_for("v", into="either"))
    client.signal("loose", "A", "v", {"approved": True}, actor="ann")
    assert client.get("loose", "A").state["either"] == {"approved": True}


def test_a_schema_that_refers_to_itself_is_looked_through_once() -> None:
    tree = {
        "$ref": "#/$defs/Tree",
        "$defs": {"Tree": {"properties": {"left": {}}, "anyOf": [{"$ref": "#/$defs/Tree"}]}},
    }
    assert asks_for("left", tree)
    assert not asks_for("actor", tree)


# ----------------------------------------------------------------------------------------------- how it can be answered
@pytest.mark.parametrize(
    "outcome",
    [
        receive("chat", into="a"),
        wait_for("approval", into="approval"),
        approval(approvers=1),
        wait_for("v", into="verdict"),
        wait_for("a", choices=["red", "green"]),
    ],
    ids=["stream", "optional field", "approval", "alias", "choices"],
)
def test_the_command_that_why_names_answers_the_question(
    client: Client, ask: Ask, worker_env: dict[str, str], outcome: Any
) -> None:
    ask(outcome)
    [command] = client.why("several", "A").commands
    assert "null" not in command
    ran = CliRunner().invoke(cli, shlex.split(command)[1:], env={**worker_env, "KEEPSTEP_WORKFLOWS": ""})
    assert ran.exit_code == 0, ran.output
    assert client.get("several", "A").status == "queued"


def test_the_command_names_an_actor_where_several_are_wanted() -> None:
    wait = {"name": "a", "schema": None, "stream": False, "approvers": 2}
    assert answer_command("w", "t", wait) == "keepstep signal w t a --actor YOU"


def test_why_names_what_moves_a_case_that_failed_because_nobody_answered(
    client: Client, ask: Ask, db: Database
) -> None:
    for thread_id in ("A", "B"):
        waits.expire(db, ask(wait_for("a", into="a", timeout=0), thread_id).case)
    told = client.why("several", "A")
    assert told.commands == ("keepstep rewind several A --to 1", "keepstep skip several A")
    assert client.rewind("several", "A", to=1).status == "waiting"
    assert client.skip("several", "B").step == "after_a"


# ------------------------------------------------------------------------------------------------- what is asked again
def test_a_rewind_does_not_ask_again_what_a_default_had_answered(client: Client, ask: Ask, db: Database) -> None:
    ring = ask(wait_all(wait_for("a", into="a", timeout=0, default="default"), wait_for("b", into="b")))
    waits.expire(db, ring.case)
    client.signal("several", "A", "b", 1)
    client.rewind("several", "A", to=2, repeat_effects=True)
    assert [wait["name"] for wait in client.waits("several", "A")] == ["b"]
    client.rewind("several", "A", to=1, repeat_effects=True)
    assert [wait["name"] for wait in client.waits("several", "A")] == ["a", "b"]
