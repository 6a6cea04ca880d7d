"""What a step changes survives JSON exactly, or is refused by the path of the field."""

import json
import math
import uuid
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    computed_field,
    field_serializer,
    model_serializer,
    model_validator,
)

from keepstep.checkpoint.delta import diff
from keepstep.steps.errors import BadOutcome, BadState
from keepstep.steps.state import changes, dump, load, merge, refuse_what_json_lacks

quick = settings(max_examples=25, deadline=None, database=None)


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Item(BaseModel):
    name: str = ""
    n: int = 0


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Money:
    amount: Decimal
    currency: str = "EUR"


class Loose(BaseModel):
    """Fields of every kind that JSON has by itself."""

    f: float = 0.0
    maybe: float | None = None
    n: int = 0
    flag: bool = False
    s: str = ""
    texts: list[str] = []
    items: list[Item] = []
    named: dict[str, Item] = {}
    any: Any = None
    m: dict[str, Any] = {}


class Typed(BaseModel):
    """Fields whose JSON is another type than they are."""

    when: datetime = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    naive: datetime = datetime(2026, 1, 2)
    zoned: datetime = datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Paris"))
    offset: datetime = datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    day: date = date(2026, 1, 2)
    span: timedelta = timedelta(days=-3, microseconds=1)
    price: Decimal = Decimal("1.10")
    id: UUID = UUID(int=5)
    data: bytes = b"text"
    color: Color = Color.RED
    level: Level = Level.LOW
    word: Word = Word.YES
    tags: set[str] = {"b", "a"}
    frozen: frozenset[int] = frozenset({1, 2})
    pair: tuple[int, str] = (1, "x")
    point: Point = Point(1, 2)
    path: Path = Path("/a/b")
    by_number: dict[int, str] = {1: "one"}
    by_color: dict[Color, int] = {Color.RED: 1}
    money: Money = Money(Decimal("9.99"))
    nested: list[dict[str, tuple[Item, ...]]] = [{"k": (Item(name="i"),)}]


def step(model: type[BaseModel], update: dict[str, Any], **before: Any) -> dict[str, Any]:
    """The state after a step that returned the update."""
    stored = dump(model(**before))
    return merge(model, stored, load(model, stored), update)


# ---------------------------------------------------------------------------------------------- what survives
def test_typed_fields_come_back_as_they_were() -> None:
    stored = json.loads(json.dumps(dump(Typed())))
    assert load(Typed, stored) == Typed()
    assert merge(Typed, stored, load(Typed, stored), {}) == {**stored, "tags": dump(Typed())["tags"]}


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    id: UUID = UUID(int=5)
    pair: tuple[int, ...] = (1, 2)
    color: Color = Color.RED
    tags: set[str] = {"a"}
    n: int = 0


def test_a_strict_model_takes_its_own_dates_back_and_stays_strict() -> None:
    assert load(Strict, step(Strict, {"n": 1})) == Strict(n=1)
    with pytest.raises(BadState, match="Strict/n: ") as refusal:
        step(Strict, {"n": "1"})
    assert refusal.value.path == "/n"


class Base64(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    data: bytes = b"\xff\x00"


def test_bytes_that_are_no_text_survive_as_base64_where_the_model_says_so() -> None:
    assert load(Base64, step(Base64, {"data": b"\xfe"})) == Base64(data=b"\xfe")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=8,
)


@quick
@given(json_values)
def test_any_json_survives_in_a_field_of_any_type(value: Any) -> None:
    stored = step(Loose, {"any": value})
    assert json.dumps(stored["any"]) == json.dumps(value)
    assert json.dumps(load(Loose, json.loads(json.dumps(stored))).any) == json.dumps(value)  # type: ignore[attr-defined]


def test_nul_characters_and_huge_integers_survive() -> None:
    stored = step(Loose, {"s": "a\0b", "any": [10**4000, {"\0": 2**64}], "n": 10**100})
    assert load(Loose, json.loads(json.dumps(stored))) == Loose(s="a\0b", any=[10**4000, {"\0": 2**64}], n=10**100)


def test_subclasses_of_text_and_numbers_are_stored_as_what_the_field_says() -> None:
    class Safe(str):
        pass

    assert step(Loose, {"s": Safe("x"), "n": Level.LOW, "f": 1})["s"] == "x"


@pytest.mark.parametrize("value", [(1, 2), OrderedDict(a=1), defaultdict(int, a=1)])
def test_a_tuple_is_as_good_as_a_list_and_any_mapping_as_a_dict(value: Any) -> None:
    assert step(Loose, {"any": value})["any"] == (dict(value) if isinstance(value, dict) else list(value))


class Shape(BaseModel):
    kind: Literal["circle"] = "circle"
    r: float = 1.0


class Square(BaseModel):
    kind: Literal["square"] = "square"
    side: float = 1.0


class Drawing(BaseModel):
    shapes: list[Annotated[Shape | Square, Field(discriminator="kind")]] = []
    loose: int | str | None = None
    when: datetime | None = None


def test_unions_and_optionals_come_back_as_the_member_that_they_were() -> None:
    drawing = Drawing(shapes=[Square(), Shape(r=2)], loose="5", when=datetime(2026, 1, 1, tzinfo=UTC))
    back = load(Drawing, step(Drawing, {"shapes": drawing.shapes, "loose": "5", "when": drawing.when}))
    assert back == drawing
    assert type(back.loose) is str  # type: ignore[attr-defined]


class Aliased(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    amount: int = Field(1, alias="amt")
    note: str = Field("", validation_alias="in", serialization_alias="out")


def test_stored_keys_are_field_names_whatever_the_aliases() -> None:
    assert step(Aliased, {"amount": 2, "note": "n"}) == {"amount": 2, "note": "n"}
    with pytest.raises(BadState, match="no field 'amt'; it has amount, note"):
        step(Aliased, {"amt": 2})


class Area(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int = 2

    @computed_field  # type: ignore[prop-decorator]
    @property
    def square(self) -> int:
        return self.a**2


class Plan(BaseModel):
    areas: list[Area] = [Area()]


def test_computed_fields_are_not_stored_and_do_no_harm() -> None:
    assert step(Area, {"a": 3}) == {"a": 3}
    assert step(Plan, {"areas": [Area(a=4)]}) == {"areas": [{"a": 4}]}


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


def test_generic_models_keep_their_parameter() -> None:
    assert step(Box[int], {"more": [2]}, content=1) == {"content": 1, "more": [2]}
    with pytest.raises(BadState) as refusal:
        step(Box[int], {"more": ["x"]}, content=1)
    assert refusal.value.path == "/more/0"


class Private(BaseModel):
    n: int = 0
    items: list[Item] = []
    _cache: dict[str, int] = PrivateAttr(default_factory=lambda: {"made": id(object())})


class Holder(BaseModel):
    inner: Private = Private()
    n: int = 0


def test_private_attributes_are_no_part_of_the_state() -> None:
    stored = dump(Holder())
    copy = load(Holder, stored)
    copy.inner._cache["x"] = 1  # type: ignore[attr-defined]
    assert merge(Holder, stored, copy, {"inner": Private(n=1)})["inner"] == {"n": 1, "items": []}


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    n: int = 0
    items: list[int] = []


def test_a_frozen_model_is_changed_by_what_is_returned_and_by_its_lists() -> None:
    stored = dump(Frozen())
    copy = load(Frozen, stored)
    copy.items.append(1)  # type: ignore[attr-defined]
    assert merge(Frozen, stored, copy, {"n": 2}) == {"n": 2, "items": [1]}


# ------------------------------------------------------------------------------------------------ what is merged
def test_a_change_in_place_deep_inside_counts() -> None:
    stored = dump(Loose(items=[Item()], m={"a": [1]}))
    copy = load(Loose, stored)
    assert isinstance(copy, Loose)
    copy.items[0].name = "changed"
    copy.m["a"].append(2)
    copy.f = 1
    after = merge(Loose, stored, copy, {"n": 3})
    assert (after["items"], after["m"], after["n"], type(after["f"])) == (
        [{"name": "changed", "n": 0}],
        {"a": [1, 2]},
        3,
        float,
    )
    assert stored["m"] == {"a": [1]}  # what was before is untouched


@pytest.mark.parametrize("field", ["any", "m"])
def test_a_copy_shares_nothing_with_the_state_before_so_no_change_in_place_is_lost(field: str) -> None:
    before = dump(Loose(any={"list": [1]}, m={"list": [1]}))
    copy = load(Loose, before)
    getattr(copy, field)["list"].append(2)
    after = merge(Loose, before, copy, {})
    assert diff(before, after) == [{"op": "add", "path": f"/{field}/list/-", "value": 2}]


@pytest.mark.parametrize("update", [{"texts": ["y"]}, {"texts": []}, {"n": 1, "texts": None}])
def test_a_field_changed_both_ways_is_refused(update: dict[str, Any]) -> None:
    stored = dump(Loose())
    copy = load(Loose, stored)
    copy.texts.append("x")  # type: ignore[attr-defined]
    with pytest.raises(BadOutcome, match="'texts' was changed in place and also returned"):
        merge(Loose, stored, copy, update)


def test_a_field_returned_but_not_changed_in_place_is_just_returned() -> None:
    stored = dump(Loose(texts=["a"]))
    copy = load(Loose, stored)
    assert merge(Loose, stored, copy, {"texts": ["a", "b"]})["texts"] == ["a", "b"]


class Tokened(BaseModel):
    n: int = 0
    token: str = Field(default_factory=lambda: uuid.uuid4().hex)


def test_a_new_field_with_a_default_factory_does_not_look_changed() -> None:
    copy = load(Tokened, {"n": 1})  # stored before the field existed
    assert merge(Tokened, {"n": 1}, copy, {"token": "mine"}) == {"n": 1, "token": "mine"}
    assert merge(Tokened, {"n": 1}, copy, {})["token"] == copy.token  # type: ignore[attr-defined]


def test_a_whole_state_is_an_update_of_every_field() -> None:
    stored = dump(Loose(n=1, s="kept"))
    update = changes(Loose, Loose(n=2))
    assert merge(Loose, stored, load(Loose, stored), update) == dump(Loose(n=2))


def test_a_state_of_another_model_is_refused() -> None:
    with pytest.raises(BadOutcome, match="returned a Item, its state is a Loose"):
        changes(Loose, Item())


@pytest.mark.parametrize("extra", ["forbid", "ignore"])
def test_an_unknown_field_is_refused_with_the_fields_that_there_are(extra: Literal["forbid", "ignore"]) -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra=extra)
        n: int = 0

    with pytest.raises(BadState, match="Closed has no field 'a/b'; it has n") as refusal:
        step(Closed, {"a/b": 1})
    assert refusal.value.path == "/a~1b"


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int = 0


def test_extra_fields_are_kept_changed_and_removed_where_the_model_allows_them() -> None:
    stored = step(Open, {"new": [1]}, old=1, gone=2)
    assert stored == {"n": 0, "old": 1, "gone": 2, "new": [1]}
    copy = load(Open, stored)
    del copy.gone  # type: ignore[attr-defined]
    copy.new.append(2)  # type: ignore[attr-defined]
    assert merge(Open, stored, copy, {"old": 3}) == {"n": 0, "old": 3, "new": [1, 2]}
    copy.fresh = 1  # type: ignore[attr-defined]
    with pytest.raises(BadOutcome, match="'fresh'"):
        merge(Open, stored, copy, {"fresh": 2})


def test_stored_fields_that_an_ignoring_model_no_longer_has_are_dropped() -> None:
    assert merge(Item, {"name": "a", "n": 1, "former": 2}, load(Item, {"name": "a", "n": 1, "former": 2}), {}) == {
        "name": "a",
        "n": 1,
    }


# -------------------------------------------------------------------------------------------------- what is refused
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("update", "path", "reason"),
    [
        ({"f": math.nan}, "/f", "nan is not a JSON number"),
        ({"maybe": math.inf}, "/maybe", "inf is not a JSON number"),
        ({"any": [1, {"a/b": math.nan}]}, "/any/1/a~1b", "nan is not"),
        ({"m": {"k~": [-math.inf]}}, "/m/k~0/0", "-inf is not"),
        ({"any": Decimal("NaN")}, "/any", "Decimal"),
        ({"s": "\ud800"}, "/s", "lone surrogate at position 0"),
        ({"texts": ["ok", "x\udfff"]}, "/texts/1", "lone surrogate at position 1"),
        ({"named": {"k": {"name": "\ud800"}}}, "/named/k/name", "surrogate"),
        ({"any": {"\ud800": 1}}, "/any", "surrogate"),
        ({"any": {"a": [10**5000]}}, "/any/a/0", "too long"),
        ({"any": {"a": [object()]}}, "/any/a/0", "object"),
        ({"any": [b"\xff"]}, "/any/0", "utf-8"),
        ({"any": {"a": {1}}}, "/any/a", "set"),
        ({"any": [datetime(2026, 1, 1)]}, "/any/0", "datetime"),
        ({"any": Color.RED}, "/any", "Color"),
        ({"any": Word.YES}, "/any", "Word"),
        ({"any": UUID(int=1)}, "/any", "UUID"),
        ({"any": [Item()]}, "/any/0", "Item"),
        ({"any": {1: 2}}, "/any", "its key 1: a int is no text"),
        ({"any": lambda: None}, "/any", "function"),
        ({"any": CYCLE}, "/any", "Circular"),
        ({"any": deep(5000)}, "/any", "depth"),
        ({"n": "five"}, "/n", "valid integer"),
        ({"n": None}, "/n", "valid integer"),
        ({"items": [{"n": 1}, {"n": "x"}]}, "/items/1/n", "valid integer"),
        ({"named": {"a/b": {"n": "x"}}}, "/named/a~1b/n", "valid integer"),
        ({"items": 5}, "/items", "valid list"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_json_or_the_model_refuses_is_named_by_its_path(update: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(BadState, match=reason) as refusal:
        step(Loose, update)
    assert refusal.value.path == path
    assert str(refusal.value).startswith(f"Loose{path}")
    str(refusal.value).encode()  # it can be logged
    stored = dump(Loose())
    copy = load(Loose, stored)
    ((name, value),) = update.items()
    setattr(copy, name, value)
    with pytest.raises(BadState) as in_place:
        merge(Loose, stored, copy, {})
    assert in_place.value.path == path


def test_a_wrong_value_put_deep_inside_in_place_is_found_too() -> None:
    stored = dump(Loose(items=[Item(), Item()]))
    copy = load(Loose, stored)
    copy.items[1].n = "many"  # type: ignore[attr-defined]
    with pytest.raises(BadState) as refusal:
        merge(Loose, stored, copy, {})
    assert refusal.value.path == "/items/1/n"


@pytest.mark.parametrize(
    ("stored", "path"),
    [
        ({"shapes": [{"kind": "circle", "r": 1}, {"kind": "square", "side": "x"}]}, "/shapes/1/side"),
        ({"shapes": [{"kind": "star"}]}, "/shapes/0"),
        ({"shapes": [{}]}, "/shapes/0"),
        ({"loose": []}, "/loose"),
        ({"when": "yesterday"}, "/when"),
    ],
)
def test_the_path_leaves_out_the_tags_of_unions(stored: dict[str, Any], path: str) -> None:
    with pytest.raises(BadState) as refusal:
        load(Drawing, stored)
    assert refusal.value.path == path


class Required(BaseModel):
    items: list[Item]
    inner: Area


@pytest.mark.parametrize(
    ("stored", "path"),
    [
        ({"inner": {}}, "/items"),
        ({"items": []}, "/inner"),
        ({"items": [], "inner": {"x/y": 1}}, "/inner/x~1y"),
    ],
)
def test_what_is_missing_or_too_much_is_named_by_its_path(stored: dict[str, Any], path: str) -> None:
    with pytest.raises(BadState) as refusal:
        load(Required, stored)
    assert refusal.value.path == path


def test_a_bad_key_of_a_typed_dict_is_named() -> None:
    with pytest.raises(BadState) as refusal:
        load(Typed, {"by_number": {"one": "x"}})
    assert refusal.value.path == "/by_number/one"


class Secret(BaseModel):
    keys: list[dict[str, SecretStr]] = []


def test_a_secret_is_refused_by_its_path_and_never_shown() -> None:
    with pytest.raises(BadState, match="/keys/0/a~1b doesn't survive") as refusal:
        dump(Secret(keys=[{"a/b": SecretStr("hunter2")}]))
    assert "hunter2" not in str(refusal.value)


class Sub(Item):
    more: int = 1


def test_a_subclass_in_a_field_is_refused_rather_than_cut_off() -> None:
    with pytest.raises(BadState) as refusal:
        dump(Loose(items=[Item(), Sub()]))
    assert refusal.value.path == "/items/1"


class Excluding(BaseModel):
    hidden: list[str] = Field([], exclude=True)


class Outer(BaseModel):
    inner: Excluding = Excluding()


def test_a_nested_excluded_field_is_refused_when_it_would_be_lost() -> None:
    assert dump(Outer()) == {"inner": {}}
    with pytest.raises(BadState) as refusal:
        dump(Outer(inner=Excluding(hidden=["x"])))
    assert refusal.value.path == "/inner/hidden"


# ----------------------------------------------------------------------------------- models that misbehave themselves
class Counting(BaseModel):
    n: int = 0

    @model_validator(mode="after")
    def _count(self) -> "Counting":
        self.n += 1
        return self


def test_a_validator_that_says_something_else_each_time_is_refused() -> None:
    with pytest.raises(BadState) as refusal:
        step(Counting, {})
    assert refusal.value.path == "/n"


class Summing(BaseModel):
    parts: list[int] = []
    total: int = 0

    @model_validator(mode="after")
    def _sum(self) -> "Summing":
        self.total = sum(self.parts)
        return self


def test_a_validator_that_derives_a_field_has_the_last_word() -> None:
    assert step(Summing, {"parts": [1, 2], "total": 99}) == {"parts": [1, 2], "total": 3}


class Picky(BaseModel):
    n: int = 0

    @model_validator(mode="after")
    def _check(self) -> "Picky":
        if self.n == 1:
            raise ValueError("one is too few")
        if self.n > 1:
            raise KeyError(self.n)
        return self


def test_what_a_models_validator_refuses_is_a_bad_state_at_the_root() -> None:
    with pytest.raises(BadState, match="Picky: Value error, one is too few") as refusal:
        step(Picky, {"n": 1})
    assert refusal.value.path == ""


def test_a_validator_that_breaks_is_a_bad_state_too() -> None:
    with pytest.raises(BadState, match="Picky: its validation raised KeyError: 2"):
        step(Picky, {"n": 2})
    with pytest.raises(BadState, match="its validation raised KeyError"):
        load(Picky, {"n": 2})


class Serializing(BaseModel):
    n: int = 0
    text: str = ""

    @field_serializer("text")
    def _write(self, value: str) -> str:
        return {"a": "written"}[value]


def test_a_serializer_that_breaks_is_named_by_its_field() -> None:
    with pytest.raises(BadState, match="Serializing/text can't be JSON") as refusal:
        dump(Serializing(text="b"))
    assert refusal.value.path == "/text"


class Flat(BaseModel):
    n: int = 0

    @model_serializer
    def _write(self) -> str:
        return str(self.n)


def test_a_model_that_becomes_no_object_is_refused() -> None:
    with pytest.raises(BadState, match="Flat becomes a str in JSON"):
        dump(Flat())


class Celsius:
    def __init__(self, degrees: float):
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and self.degrees == other.degrees

    __hash__ = None  # type: ignore[assignment]


class Weather(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    now: Annotated[
        Celsius,
        BeforeValidator(lambda v: v if isinstance(v, Celsius) else Celsius(v)),
        PlainSerializer(lambda v: v.degrees, return_type=float),
    ]


def test_a_type_of_the_users_own_comes_back_by_its_own_validator() -> None:
    stored = step(Weather, {"now": Celsius(21.5)}, now=Celsius(20))
    assert stored == {"now": 21.5}
    assert load(Weather, stored) == Weather(now=Celsius(21.5))


# -------------------------------------------------------------------------------------------------- plain JSON values
@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, ""),
        ([1, math.inf], "/1"),
        ({"a/b": {"c": object()}}, "/a~1b/c"),
        ({"k": "\ud800"}, "/k"),
        ({"k": {"\udfff": 1}}, "/k"),
        ({"k": {(1, 2): 1}}, "/k"),
        ({"k": [{1: "json.dumps would make it text"}]}, "/k/0"),
        ({"k": {None: 1}}, "/k"),
        ([10**5000], "/0"),
        ({1, 2}, ""),
        (CYCLE, ""),
        (deep(100_000), ""),
        (datetime(2026, 1, 1), ""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_payload_or_prompt_that_is_no_json_is_refused_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(BadState, match=r"^prompt.* can't be JSON") as refusal:
        refuse_what_json_lacks(value, "prompt")
    assert refusal.value.path == path
    str(refusal.value).encode()


@pytest.mark.parametrize("value", [None, 0, "", "\0", [], {}, (1,), {"a": [1.5, True]}, 10**4000], ids=type)
def test_plain_json_is_let_through(value: Any) -> None:
    refuse_what_json_lacks(value, "prompt")
