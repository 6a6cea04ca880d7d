"""What a step may wait for, and when two answers are the same."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field

from keepstep import Approval, Workflow, receive, wait_for
from keepstep.steps.approval import agree, refuses
from keepstep.steps.decide import Returned, View, decide
from keepstep.steps.field import why_not, why_not_payload
from keepstep.steps.hooks import names_of
from keepstep.steps.sameness import same
from keepstep.steps.words import one_line, printable


class Amount(BaseModel):
    euros: int = Field(alias="EUR", ge=0)


class State(BaseModel):
    amount: Amount | None = None
    anything: Any = None


workflow = Workflow("asks", state=State)
workflow.step(name="ask", next=["ask"])(lambda state, call: None)
workflow.step(name="behind")(lambda state, call: None)


def asked(outcome: Any) -> Any:
    view = View(workflow=workflow, step=workflow.first, before=State().model_dump(mode="json"))
    return decide(view, Returned(value=outcome, copy=State()))


@pytest.mark.parametrize("approvers", [0, -1, 1001, 40_000, 1.5, True, "2"])
def test_so_many_approvers_are_refused_where_it_is_written(approvers: Any) -> None:
    with pytest.raises(ValueError, match="a whole number from 1 to 1,000"):
        wait_for("a", approvers=approvers)


def test_what_follows_a_timeout_takes_a_timeout() -> None:
    for waiting in (wait_for, receive):
        with pytest.raises(ValueError, match="has no timeout"):
            waiting("a", on_timeout="x")


@pytest.mark.parametrize(("choices", "default"), [(["red"], "blue"), ([1], True), ([None], False), ([], 1)])
def test_a_default_is_one_of_the_choices(choices: list[Any], default: Any) -> None:
    with pytest.raises(ValueError, match="none of its choices"):
        wait_for("a", choices=choices, default=default, timeout=1)


def test_a_default_fits_the_payload() -> None:
    held = asked(wait_for("a", payload=Amount, default={"euros": -1}, timeout=1))
    assert (held.move, "greater than or equal to 0" in held.error["message"]) == ("hold", True)
    assert asked(wait_for("a", payload=Amount, default={"euros": 1}, timeout=1)).move == "wait"


def test_an_answer_leads_along_the_only_edge() -> None:
    [wait] = asked(wait_for("a")).waits
    assert wait.then.step == "ask"


def test_a_payload_is_described_and_checked_by_the_names_of_its_fields() -> None:
    [wait] = asked(wait_for("a", payload=Amount)).waits
    assert list(wait.schema["properties"]) == ["euros"]
    for check in (lambda value: why_not(State, "amount", value), lambda value: why_not_payload(Amount, value)):
        assert check({"euros": 1}) is None
        assert "Field required" in check({"EUR": 1})


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ({"a": [1, {"b": None}]}, {"a": (1.0, {"b": None})}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([1], [1, 2], False),
        ("1", 1, False),
        (None, False, False),
        ([], {}, False),
    ],
    ids=str,
)
def test_what_is_the_same_as_json(a: Any, b: Any, alike: bool) -> None:
    assert same(a, b) == same(b, a) == alike


def test_what_is_deep_is_compared_too() -> None:
    deep: Any = 1
    for _ in range(50_000):
        deep = [deep]
    assert same(deep, deep)
    assert not same(deep, [deep])


def test_people_agree_on_all_but_who_they_are_and_what_they_note() -> None:
    assert agree(Approval(approved=True, actor="a").model_dump(), {"approved": True, "note": "x"})
    assert not agree({"approved": True}, {"approved": True, "amount": 7})
    assert not agree("yes", "no")
    assert refuses({"approved": False})
    assert not refuses({"approved": 0})
    assert not refuses("no")


def test_functions_of_one_name_have_names_of_their_own() -> None:
    def tell() -> None: ...

    assert names_of([tell, print, tell, tell]) == ["tell", "print", "tell:1", "tell:2"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Zoë 😀", "plain, Zoë 😀"),
        ("\x1b[2K", "\\x1b[2K"),
        ("a\r\nb", "a\\r\\nb"),
        ("\u009b\u202e\u2066", "\\x9b\\u202e\\u2066"),
        ("a\u00a0b", "a b"),
        ("\udcff", "\\udcff"),
    ],
    ids=ascii,
)
def test_what_a_terminal_would_act_upon_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_one_line_has_blanks_for_line_ends() -> None:
    assert one_line("a\r\n\tb\x1b") == "a b\\x1b"
