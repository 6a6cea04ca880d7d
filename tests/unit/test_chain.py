"""A state written as snapshots and deltas comes back, and a load never reads much more than the state."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.checkpoint import codec
from keepstep.checkpoint.chain import LIGHT, Link, assemble, link
from keepstep.checkpoint.delta import DELTA_OVERHEAD
from keepstep.steps.errors import CheckpointDamaged, StateTooLarge

LARGE = 10**9
State = dict[str, Any]


def size(value: Any) -> int:
    return len(codec.encode(value).encode())


class Case:
    """Checkpoints as the database keeps them."""

    def __init__(self, state: State):
        self.state, self.seq = state, 0
        self.links = [link({}, state, 0, max_bytes=LARGE, snapshot=True)]

    def step(self, state: State) -> Link:
        self.links.append(link(self.state, state, self.links[-1].weight, max_bytes=LARGE))
        self.state, self.seq = state, self.seq + 1
        return self.links[-1]

    def chain(self) -> list[list[Any]]:
        """What a load reads: the latest snapshot and the deltas after it."""
        begin = max(i for i, one in enumerate(self.links) if one.is_snapshot)
        return [[i, one.is_snapshot, codec.decode(one.payload)] for i, one in enumerate(self.links) if i >= begin]

    def check(self) -> None:
        chain = self.chain()
        assert codec.encode(sorted(assemble(chain, self.seq).items())) == codec.encode(sorted(self.state.items()))
        snapshot, *deltas = self.links[-len(chain) :]
        cost = len(snapshot.payload.encode()) + sum(len(one.payload.encode()) + DELTA_OVERHEAD for one in deltas)
        assert cost - size(self.state) <= self.links[-1].weight
        assert cost <= max(2 * size(self.state), size(self.state) + LIGHT) or not deltas


keys = st.sampled_from(["a", "b", "c/d", "é"])
fields = st.integers(0, 3) | st.text(max_size=3) | st.integers(0, 3000).map("x".__mul__) | st.lists(st.booleans())


@settings(max_examples=25, deadline=None, database=None)
@given(st.lists(st.dictionaries(keys, fields, max_size=4), min_size=1, max_size=12))
def test_any_sequence_of_states_comes_back_and_a_load_reads_at_most_twice_the_state(states: list[State]) -> None:
    case = Case(states[0])
    for state in states[1:]:
        case.step(state)
        case.check()


def test_a_state_that_shrinks_is_not_loaded_from_a_snapshot_many_times_its_size() -> None:
    case = Case({"text": "x" * 1_000_000, "rest": "y" * 10_000})
    case.step({"rest": "y" * 10_000})
    case.check()
    for n in range(9, 0, -1):  # and not when it shrinks little by little
        case.step({"rest": "y" * (n * 1000)})
        case.check()


def test_a_long_conversation_is_written_in_proportion_to_its_messages() -> None:
    rng = random.Random(1)
    state: State = {"messages": [], "n": 0}
    case, said = Case(state), 0
    for n in range(80):
        message = {"role": "user", "content": "w" * rng.randrange(1000, 3000)}
        said += size(message)
        state = {"messages": [*state["messages"], message], "n": n}
        case.step(state)
    case.check()
    assert sum(len(one.payload) for one in case.links) < 1.2 * said, "and hardly more: what is appended is read anyway"


def test_a_small_state_is_not_written_whole_at_every_second_step() -> None:
    state = {"text": "x" * 1000, "n": 0}
    case = Case(state)
    for n in range(40):
        case.step({**state, "n": n})
        case.check()
    assert sum(one.is_snapshot for one in case.links) <= 3
    assert sum(len(one.payload) for one in case.links) < 40 * 150


def test_a_small_change_to_a_large_state_is_a_small_delta() -> None:
    stored = Case({"big": "x" * 100_000, "n": 0}).step({"big": "x" * 100_000, "n": 1})
    assert not stored.is_snapshot
    assert json.loads(stored.payload) == [{"op": "replace", "path": "/n", "value": 1}]
    assert stored.weight == len(stored.payload) + DELTA_OVERHEAD


def test_a_step_that_changes_nothing_stores_an_empty_delta() -> None:
    stored = Case({"big": "x" * 5000}).step({"big": "x" * 5000})
    assert (stored.payload, stored.is_snapshot, stored.weight) == ("[]", False, DELTA_OVERHEAD + 2)


def test_a_snapshot_is_written_when_it_is_asked_for_and_begins_anew() -> None:
    stored = link({"a": "x" * 9000}, {"a": "x" * 9000}, 500, max_bytes=LARGE, snapshot=True)
    assert (stored.is_snapshot, stored.weight, json.loads(stored.payload)) == (True, 0, {"a": "x" * 9000})


def test_nul_and_any_unicode_text_survive() -> None:
    case = Case({"t": "x" * 3000})
    state = {"t": "x" * 3000, "nul": "a\0b", "é\0": "\U0001f600\u2028"}
    assert not case.step(state).is_snapshot
    assert assemble(case.chain(), 1) == state


CHAIN: list[list[Any]] = [
    [3, True, {"n": 0}],
    [4, False, [{"op": "replace", "path": "/n", "value": 4}]],
    [5, False, [{"op": "replace", "path": "/n", "value": 5}]],
]


@pytest.mark.parametrize(
    ("links", "seq", "message"),
    [
        ([], 5, "snapshot is missing"),
        (CHAIN[1:], 5, "begins at 4 without a snapshot"),
        ([CHAIN[0], CHAIN[2]], 5, "gap: checkpoint 4 is missing"),
        (CHAIN[:2], 5, "ends at 4: checkpoint 5 is missing"),
        (CHAIN, 4, "ends at 5"),
        ([CHAIN[0], CHAIN[1], CHAIN[1]], 5, "gap: checkpoint 5"),
        ([CHAIN[0], CHAIN[2], CHAIN[1]], 4, "gap: checkpoint 4"),
        ([[3, True, [1]]], 3, "without a snapshot"),
        ([[3, True, None]], 3, "without a snapshot"),
        ([CHAIN[0], [4, False, {"n": 4}]], 4, "no list of operations"),
        ([CHAIN[0], [4, False, {}]], 4, "no list of operations"),
        ([CHAIN[0], [4, False, None]], 4, "no list of operations"),
        ([CHAIN[0], [4, False, [{"op": "remove", "path": "/x"}]]], 4, "doesn't apply"),
        ([CHAIN[0], [4, False, [{"op": "replace", "path": "", "value": 7}]]], 4, "leads to a int"),
    ],
)
def test_a_broken_chain_is_named_and_never_guessed(links: list[list[Any]], seq: int, message: str) -> None:
    with pytest.raises(CheckpointDamaged, match=message):
        assemble(json.loads(json.dumps(links)), seq)


def test_a_state_that_is_too_large_is_refused_by_its_largest_field() -> None:
    state = {"small": 1, "a/b": "é" * 600, "text": "x" * 1000}
    with pytest.raises(StateTooLarge, match=r"the most is 1,500 .*The largest field is /a~1b with 1,202 bytes"):
        link({}, state, 0, max_bytes=1500)


@pytest.mark.parametrize("snapshot", [True, False])
def test_the_limit_counts_bytes_and_is_inclusive(snapshot: bool) -> None:
    state = {"t": "é" * 10}
    link({}, state, 0, max_bytes=size(state), snapshot=snapshot)
    with pytest.raises(StateTooLarge):
        link({}, state, 0, max_bytes=size(state) - 1, snapshot=snapshot)


def test_nan_is_never_encoded() -> None:
    for value in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="JSON compliant"):
            codec.encode({"x": value})


def test_none_is_sqls_null_only_where_that_is_asked_for() -> None:
    assert (codec.encode(None), codec.encode_or_none(None), codec.encode_or_none(0)) == ("null", None, "0")
