"""A log is a list that only grows, of which nothing is read that nobody looks at."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from keepstep import Log, Secret, Workflow
from keepstep.checkpoint import logs
from keepstep.checkpoint.delta import apply
from keepstep.steps import chunks
from keepstep.steps import state as states
from keepstep.steps.chunks import MARK, NODE, Parts
from keepstep.steps.errors import BadOutcome, BadState, DefinitionError, LogDamaged, LogUnfit
from keepstep.steps.keys import digest_of
from keepstep.steps.secret import Cover, hide, hide_operations, secrets_of

WORDS = "words " * 40


class Message(BaseModel):
    """token: secret."""

    text: str
    token: Annotated[str, Secret] = ""


class Chat(BaseModel):
    """other: so that something else can change."""

    messages: Log[Message] = Log()
    numbers: Log[int] = Log()
    other: int = 0


class Store:
    """A case as its checkpoints leave it. fetched: how many chunks and nodes were read."""

    def __init__(self, model: type[BaseModel] = Chat):
        self.model, self.state, self.blobs, self.fetched = model, states.dump(model()), dict[str, str](), 0

    def fetch(self, digests: Collection[str]) -> Mapping[str, str]:
        self.fetched += len(digests)
        return {digest: self.blobs[digest] for digest in digests if digest in self.blobs}

    def load(self) -> Any:
        return states.load(self.model, self.state, None, self.fetch)

    def step(self, copy: BaseModel, update: Mapping[str, Any] | None = None) -> None:
        """What a step leaves behind is stored."""
        merged = states.merged(self.model, self.state, copy, update or {}, self.fetch)
        sealed = states.sealed(self.model, merged)
        assert json.loads(sealed.text) == sealed.state
        self.blobs |= sealed.blobs
        self.state = sealed.state


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few numbers, in a tree of several levels."""
    shrink(monkeypatch.setattr)


def shrink(put: Any) -> None:
    for name, value in {"SEAL": 12, "CHUNK": 20, "WIDTH": 3, "FETCHED": 2}.items():
        put(chunks, name, value)


def filled(count: int) -> Store:
    """A store whose log has so many numbers, appended one a step."""
    store = Store()
    for number in range(count):
        state = store.load()
        state.numbers.append(number)
        store.step(state)
    return store


# ------------------------------------------------------------------------------------------------ as a list would be
@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 999)),
            st.tuples(st.just("extend"), st.lists(st.integers(0, 999), max_size=30)),
            st.tuples(st.just("plus"), st.lists(st.integers(0, 999), max_size=3)),
            st.tuples(st.just("replace"), st.lists(st.integers(0, 999), max_size=9)),
            st.tuples(st.just("rewind"), st.integers(0, 40)),
        ),
        max_size=40,
    ),
    st.data(),
)
def test_whatever_is_done_to_it_it_holds_what_a_list_would_hold(
    does: list[tuple[str, Any]], data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch.setattr)
        store, expected = Store(), list[int]()
        past = [(store.state, expected)]
        for what, value in does:
            state = store.load()
            match what:
                case "append":
                    state.numbers.append(value)
                    store.step(state)
                    expected = [*expected, value]
                case "extend":
                    state.numbers += value
                    store.step(state)
                    expected = expected + value
                case "plus":
                    store.step(state, {"numbers": state.numbers + value})
                    expected = expected + value
                case "replace":
                    store.step(state, {"numbers": value})
                    expected = value
                case _:
                    store.state, expected = past[value % len(past)]
            before, was = past[-1]
            past.append((store.state, expected))
            assert chunks.expanded(store.state, store.fetch)["numbers"] == expected
            operations = logs.diff(before, store.state, store.fetch)
            assert apply({"numbers": list(was), "messages": [], "other": 0}, operations)["numbers"] == expected
        numbers = store.load().numbers
        assert len(numbers) == len(expected)
        begin, end = data.draw(st.integers(-50, 50)), data.draw(st.integers(-50, 50))
        step = data.draw(st.sampled_from([None, 1, 2, -1, -3]))
        assert numbers[begin:end:step] == expected[begin:end:step]
        assert list(numbers) == expected == [numbers[n] for n in range(len(expected))]
        assert list(reversed(numbers)) == expected[::-1]
        assert numbers == expected
        assert numbers == store.load().numbers
        assert numbers != [*expected, 1]
        assert chunks.reachable(chunks.parts_of(store.state["numbers"]).refs, store.fetch) <= store.blobs.keys()


def test_a_state_names_few_chunks_however_many_items_there_are() -> None:
    store = filled(0)
    for number in range(3000):
        state = store.load()
        state.messages.append(Message(text=f"{number} {WORDS}"))
        store.step(state)
    assert store.fetched == 0, "appending read something"
    assert len(json.dumps(store.state)) < 12_000
    assert store.load().messages[1234].text.startswith("1234 ")
    assert len(store.blobs) > 150


@pytest.mark.usefixtures("small")
def test_what_is_not_looked_at_is_not_read() -> None:
    store = filled(100)
    assert store.fetched == 0
    numbers = store.load().numbers
    assert (len(numbers), bool(numbers), repr(numbers)) == (100, True, "<Log of 100 items>")
    assert store.fetched == 0
    assert numbers[-1] == 99
    assert store.fetched <= 2
    assert numbers[-3:] == [97, 98, 99]
    assert store.fetched <= 3
    store.fetched = 0
    assert next(iter(store.load().numbers)) == 0
    assert store.fetched < 60, "the nodes, and the first chunks"
    assert store.load().numbers == numbers
    with pytest.raises(IndexError, match="numbers has 100 items, and none at 100"):
        numbers[100]
    with pytest.raises(IndexError):
        numbers[-101]


@pytest.mark.usefixtures("small")
def test_the_same_chunk_is_fetched_once() -> None:
    store = filled(100)
    numbers = store.load().numbers
    assert sum(numbers) == sum(numbers) == 4950
    assert store.fetched == len(store.blobs)


def test_a_short_log_is_stored_as_a_list() -> None:
    store = filled(3)
    assert store.state["numbers"] == [0, 1, 2]
    assert not store.blobs


def test_many_small_items_are_sealed_before_they_are_long() -> None:
    """Each item of the tail costs every step a moment."""
    parts, blobs = chunks.seal(chunks.Parts((), [1] * (chunks.MANY - 1)))
    assert (len(parts.tail), blobs) == (chunks.MANY - 1, {})
    parts, blobs = chunks.seal(chunks.Parts((), [1] * chunks.MANY))
    assert ([ref.items for ref in parts.refs], parts.tail, len(blobs)) == ([chunks.MANY], (), 1)


def test_many_items_of_one_step_are_cut_into_chunks() -> None:
    store = Store()
    state = store.load()
    state.messages.extend(Message(text=f"{number} {WORDS}") for number in range(1000))
    store.step(state)
    assert {len(text) > chunks.CHUNK for text in store.blobs.values()} == {False}
    assert 4 <= len(store.blobs) <= 6
    state = store.load()
    state.messages.append(Message(text="x" * 100_000))
    store.step(state)
    assert store.load().messages[1000].text == "x" * 100_000


# ------------------------------------------------------------------------------------------------------- what is in it
def test_items_are_validated_when_they_are_appended() -> None:
    state = Store().load()
    state.messages.append({"text": "a dict will do"})
    assert state.messages[0] == Message(text="a dict will do")
    with pytest.raises(BadState, match="messages/1/text can't be appended: Field required"):
        state.messages.append({"texts": "?"})
    with pytest.raises(BadState, match=r"numbers/1 can't be appended: .*integer"):
        state.numbers.extend([1, "two"])
    assert (len(state.messages), len(state.numbers)) == (1, 0)


@pytest.mark.usefixtures("small")
def test_items_are_validated_when_they_are_read_and_not_before() -> None:
    class Strict(BaseModel):
        numbers: Log[Annotated[int, Field(lt=3)]] = Log()

    store = filled(5)
    store.state, store.model = {"numbers": store.state["numbers"]}, Strict
    state = store.load()
    state.numbers.append(1)
    store.step(state)
    assert store.load().numbers[1] == 1
    with pytest.raises(LogUnfit, match="numbers/3, as it is stored, doesn't fit: Input should be less than 3") as error:
        list(store.load().numbers)
    assert error.value.path == "/numbers/3"


def test_a_validator_may_raise_anything() -> None:
    class Moody(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def grumble(cls, n: int) -> int:
            if n == 7:
                raise RuntimeError("seven")
            return n

    class Holder(BaseModel):
        log: Log[Moody] = Log()

    state = Store(Holder).load()
    with pytest.raises(BadState, match="RuntimeError: seven"):
        state.log.append({"n": 7})
    stored = states.load(Holder, {"log": [{"n": 7}]}, None, chunks.nothing)
    with pytest.raises(LogUnfit, match="RuntimeError: seven"):
        stored.log[0]  # type: ignore[attr-defined]


def test_a_strict_model_gets_its_dates_back() -> None:
    class Day(BaseModel):
        model_config = ConfigDict(strict=True)
        day: date
        parts: tuple[int, ...] = ()

    class Days(BaseModel):
        model_config = ConfigDict(strict=True)
        days: Log[Day] = Log()

    store = Store(Days)
    for number in range(1, 29):
        state = store.load()
        state.days.append(Day(day=date(2024, 2, number), parts=(1, number)))
        store.step(state)
    assert [one.day.day for one in store.load().days] == list(range(1, 29))
    assert states.load(Days, {"days": [{"day": "2024-02-03"}]}).days[0].day == date(2024, 2, 3)  # type: ignore[attr-defined]
    with pytest.raises(BadState, match="Days/days/0/day"):
        states.load(Days, {"days": [{"day": "tomorrow"}]})


def test_what_does_not_survive_json_is_refused_with_its_path() -> None:
    class Loose(BaseModel):
        log: Log[Any] = Log()

    state = Store(Loose).load()
    state.log.append({"when": date(2024, 1, 1)})
    with pytest.raises(BadState, match="Loose/log/0/when doesn't survive"):
        states.store(state, chunks.nothing)
    state = Store(Loose).load()
    state.log.extend([1, float("nan")])
    with pytest.raises(BadState, match=r"Loose/log/1 doesn't survive .* nan is not a JSON number"):
        states.store(state, chunks.nothing)
    state = Store(Loose).load()
    state.log.append(object())
    with pytest.raises(BadState, match="Loose/log"):
        states.store(state, chunks.nothing)


@pytest.mark.usefixtures("small")
def test_what_was_there_can_not_be_changed_in_place() -> None:
    store = Store()
    for number in range(9):
        state = store.load()
        state.messages.append(Message(text=f"n{number}"))
        store.step(state)
    for number in (0, 5, 8):
        state = store.load()
        assert state.messages[number].text == f"n{number}"
        store.step(state)
        state.messages[number].text = "changed"
        with pytest.raises(BadOutcome, match=rf"messages\[{number}\] was changed in place"):
            store.step(state)
        with pytest.raises(BadOutcome, match="changed in place"):
            store.step(store.load(), {"messages": state.messages.__add__([Message(text="more")])})
    state = store.load()
    state.messages.append(Message(text="new"))
    state.messages[-1].text = "newer"
    store.step(state)
    assert store.load().messages[-1].text == "newer"


def test_a_log_changed_both_ways_is_refused() -> None:
    store = filled(3)
    state = store.load()
    state.numbers.append(4)
    with pytest.raises(BadOutcome, match="'numbers' was changed in place and also returned"):
        store.step(state, {"numbers": [1]})
    state = store.load()
    store.step(state, {"numbers": state.numbers})
    assert store.load().numbers == [0, 1, 2]


@pytest.mark.usefixtures("small")
def test_other_fields_change_without_a_look_at_the_log() -> None:
    store = filled(50)
    before = store.state["numbers"]
    state = store.load()
    store.step(state, {"other": 7})
    assert (store.state["numbers"], store.fetched) == (before, 0)


# ------------------------------------------------------------------------------------------------------ as pydantic's
def test_a_model_without_a_case_has_ordinary_lists_in_its_json() -> None:
    chat = Chat(messages=[{"text": "a"}], numbers=Log([1, 2]))  # type: ignore[arg-type, list-item]
    assert chat.messages[0].text == "a"
    assert chat.model_dump() == {"messages": [{"text": "a", "token": ""}], "numbers": [1, 2], "other": 0}
    assert json.loads(chat.model_dump_json())["numbers"] == [1, 2]
    assert Chat.model_validate_json(chat.model_dump_json()) == chat
    assert Chat.model_json_schema()["properties"]["numbers"]["items"] == {"type": "integer"}
    assert Chat().numbers is not Chat().numbers
    with pytest.raises(ValueError, match="numbers"):
        Chat(numbers=["one"])  # type: ignore[arg-type, list-item]


@pytest.mark.usefixtures("small")
def test_a_loaded_log_is_written_whole_by_whoever_writes_the_model_himself() -> None:
    state = filled(20).load()
    assert state.model_dump()["numbers"] == list(range(20))
    assert json.loads(state.model_dump_json())["numbers"] == list(range(20))


@pytest.mark.usefixtures("small")
def test_copies_read_nothing_and_part_from_each_other() -> None:
    store = filled(20)
    state = store.load()
    for other in (copy.copy(state.numbers), copy.deepcopy(state).numbers, state.model_copy(deep=True).numbers):
        other.append(1)
        assert (len(other), len(state.numbers), store.fetched) == (21, 20, 0)
    assert pickle.loads(pickle.dumps(state.numbers)) == list(range(20))


def test_nobody_outside_can_name_chunks() -> None:
    forged = {MARK: {"refs": [["0" * 64, 5, 0]], "tail": []}}
    for wrong in (forged, {MARK: 7}, "text", 7):
        with pytest.raises(BadState, match="Chat/numbers"):
            states.load(Chat, {"numbers": wrong})
    with pytest.raises(ValueError, match="numbers"):
        Chat(numbers=forged)  # type: ignore[arg-type]
    with pytest.raises(LogDamaged):
        list(states.load(Chat, {"numbers": forged}, None, chunks.nothing).numbers)  # type: ignore[attr-defined]


def test_a_value_that_looks_like_a_log_is_refused() -> None:
    class Free(BaseModel):
        value: dict[str, Any] = {}

    with pytest.raises(BadState, match=r"Free/value looks like a log"):
        states.dump(Free(value={MARK: {"refs": [], "tail": []}}))


@pytest.mark.parametrize("kind", [Log[int] | None, list[Log[int]], dict[str, Chat], Log[Log[int]], Log[Chat], Chat])
def test_a_log_inside_of_something_is_refused_at_once(kind: Any) -> None:
    model = type("Model", (BaseModel,), {"__annotations__": {"field": kind}, "field": None, "__module__": __name__})
    with pytest.raises(DefinitionError, match="field has a Log inside"):
        Workflow("wrong", state=model)


def test_a_log_of_items_of_any_kind() -> None:
    class Bare(BaseModel):
        log: Log = Log()  # type: ignore[type-arg]

    store = Store(Bare)
    state = store.load()
    state.log.extend([1, "two", {"three": [3]}])
    store.step(state)
    assert store.load().log == [1, "two", {"three": [3]}]


def test_an_argument_of_a_recorded_call_is_known_again() -> None:
    store = filled(5)
    digest = digest_of("name", (store.load().numbers,), {})
    assert digest == digest_of("name", (store.load().numbers,), {}) == digest_of("name", ([0, 1, 2, 3, 4],), {})
    assert digest != digest_of("name", ([0, 1, 2, 3],), {})
    assert digest_of("name", (Log([{3, 1, 2}]),), {}) == digest_of("name", ([{1, 2, 3}],), {})


# ------------------------------------------------------------------------------------------------------------ damage
@pytest.mark.usefixtures("small")
def test_whatever_is_missing_or_wrong_is_damage() -> None:
    store = filled(60)
    whole = dict(store.blobs)
    for digest in whole:
        for wrong in (None, "[]", "7", '{"a": 1}', json.dumps([1] * 40), f'{{"{NODE}": []}}', "{", f'{{"{NODE}": 7}}'):
            store.blobs = {**whole, digest: wrong or ""}
            if wrong is None:
                del store.blobs[digest]
            with pytest.raises(LogDamaged):
                list(store.load().numbers)
            with pytest.raises(LogDamaged):
                chunks.expanded(store.state, store.fetch)
    store.blobs = whole
    assert store.load().numbers == list(range(60))


@pytest.mark.parametrize("inside", [7, {}, {"refs": []}, {"refs": [[1]], "tail": []}, {"refs": [], "tail": 7}])
def test_what_is_no_log_though_it_says_so_is_damage(inside: Any) -> None:
    with pytest.raises((LogDamaged, BadState)):
        states.load(Chat, {"numbers": {MARK: inside}}, None, chunks.nothing)
    with pytest.raises(LogDamaged):
        chunks.expanded({"numbers": {MARK: inside}}, chunks.nothing)


# ----------------------------------------------------------------------------------------------- upcasters, and secrets
@pytest.mark.usefixtures("small")
def test_an_upcaster_may_leave_move_read_and_replace_a_log() -> None:
    class Renamed(BaseModel):
        counts: Log[int] = Log()
        doubled: Log[int] = Log()

    workflow = Workflow("renamed", state=Renamed, schema_version=2)

    @workflow.upcast(from_version=1)
    def rename(stored: dict[str, Any]) -> dict[str, Any]:
        return {"counts": stored["numbers"], "doubled": [2 * n for n in Log.of(stored["numbers"])]}

    from keepstep.steps.upcasts import load

    store = filled(20)
    loaded = load(workflow, store.state, 1, fetch=store.fetch).state
    assert isinstance(loaded, Renamed)
    assert (loaded.counts, loaded.doubled) == (list(range(20)), [2 * n for n in range(20)])
    assert list(Log.of([1, 2])) == [1, 2]
    with pytest.raises(BadState, match="while the upcaster runs"):
        Log.of(store.state["numbers"])


@pytest.mark.usefixtures("small")
def test_secret_items_are_hidden_however_they_are_stored() -> None:
    store, secrets = Store(), secrets_of(Chat)
    for number in range(9):
        before, state = store.state, store.load()
        state.messages.append(Message(text="x" * (number % 3), token=f"geheim-{number}"))
        store.step(state)
        shown = [
            hide(store.state, secrets),
            hide(chunks.expanded(store.state, store.fetch), secrets),
            hide(chunks.expanded(store.state, store.fetch, 2), secrets),
            hide_operations(logs.diff(before, store.state, store.fetch), secrets),
        ]
        assert "geheim" not in json.dumps(shown)
        assert "***" in json.dumps(shown[1:])
    state = store.load()
    assert [one.token for one in state.messages][4] == "geheim-4"
    assert Cover.of(secrets, store.state, state).text("it is geheim-4") == "it is ***"


def test_a_whole_log_may_be_secret() -> None:
    class Hidden(BaseModel):
        tokens: Annotated[Log[str], Secret] = Log()

    secrets = secrets_of(Hidden)
    assert hide({"tokens": ["a"]}, secrets) == {"tokens": "***"}
    operation = {"op": "add", "path": f"/tokens/{MARK}/tail/-", "value": "geheim"}
    assert hide_operations([operation], secrets)[0]["value"] == "***"


def test_parts_know_how_many_they_are() -> None:
    assert Parts().items == 0
    assert chunks.written(Parts((), [1])) == [1]


def counting() -> Iterator[int]:
    yield from range(3)


def test_it_is_made_from_whatever_can_be_iterated() -> None:
    assert Log(counting()) == [0, 1, 2]
    assert Log([1]).__add__((2, 3)) == Log([1, 2, 3])
    assert Log() != 7
