"""Forms from JSON Schema: every payload model of pydantic's has one, and what it sends fits the model."""

from __future__ import annotations

import datetime
from enum import StrEnum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from keepstep import Approval
from keepstep.monitor.forms import BadForm, fields, payload


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int | None = None


class Big(BaseModel):
    ok: bool
    sure: bool | None = None
    colour: Colour
    size: Literal[1, 2, 3] = 2
    amount: float = Field(gt=0, le=100, description="In euros.")
    count: int
    day: datetime.date
    note: str | None = None
    tags: list[str] = []
    home: Address
    other: Address | None = None
    either: int | str = 1
    actor: str | None = None


def given(model: type[BaseModel], **typed: str) -> Any:
    form = fields(model.model_json_schema(by_alias=False))
    return payload(form, {f"p.{name}": value for name, value in typed.items()})


def test_an_approval_is_a_yes_or_no_and_a_note_and_asks_for_no_actor() -> None:
    form = fields(Approval.model_json_schema())
    assert [(f.name, f.kind, f.required) for f in form] == [("p.approved", "boolean", True), ("p.note", "text", False)]
    assert given(Approval, approved="false", note="no") == {"approved": False, "note": "no"}
    assert given(Approval, approved="true", note=" ") == {"approved": True}


def test_each_kind_of_field_becomes_what_the_model_wants() -> None:
    kinds = {f.name: f.kind for f in fields(Big.model_json_schema())}
    assert kinds == {
        "p.ok": "boolean",
        "p.sure": "boolean",
        "p.colour": "choice",
        "p.size": "choice",
        "p.amount": "number",
        "p.count": "integer",
        "p.day": "date",
        "p.note": "text",
        "p.tags": "json",
        "p.home.street": "string",
        "p.home.number": "integer",
        "p.other": "json",
        "p.either": "json",
    }
    typed = {"ok": "true", "colour": "1", "size": "2", "amount": "9.5", "count": "7", "day": "2026-02-03"}
    sent = given(Big, **typed, tags='["a"]', other='{"street": "x"}', either='"y"', **{"home.street": " Main St"})
    model = Big(**sent)
    assert (model.colour, model.size, model.amount, model.home.street) == (Colour.BLUE, 3, 9.5, " Main St")
    assert (model.tags, model.other, model.either) == (["a"], Address(street="x"), "y")


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"approved": "maybe"}, "yes or no"),
        ({"approved": ""}, "needed"),
    ],
)
def test_what_an_approval_cannot_be_is_told(typed: dict[str, str], told: str) -> None:
    with pytest.raises(BadForm, match=told):
        given(Approval, **typed)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("count", "1.5"), ("count", "1e400"), ("amount", "nan"), ("amount", "inf"), ("colour", "9"), ("colour", "red"),
        ("tags", "[1"), ("tags", "NaN"), ("tags", "[" * 100_000),
    ],
)  # fmt: skip
def test_what_a_field_cannot_be_is_told_by_its_name(field: str, text: str) -> None:
    with pytest.raises(BadForm) as caught:
        given(Big, **{field: text})
    assert f"p.{field}" in caught.value.wrong


@pytest.mark.parametrize(
    ("schema", "typed", "sent"),
    [
        (None, "", None),
        (None, '{"a": 1}', {"a": 1}),
        ({"enum": ["yes", "no"]}, "1", "no"),
        ({"type": "boolean"}, "true", True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "", None),
        ({"type": "object", "additionalProperties": True}, '{"x": [1]}', {"x": [1]}),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}}, "1", 1),
    ],
)
def test_schemas_that_are_no_object_have_one_field(schema: Any, typed: str, sent: Any) -> None:
    [only] = fields(schema)
    assert payload([only], {only.name: typed}) == sent
