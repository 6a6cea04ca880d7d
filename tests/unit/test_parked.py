"""Large values are stored apart, whichever state or change they are in, and come back as they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.checkpoint import codec
from keepstep.checkpoint.chain import assemble, link
from keepstep.checkpoint.parked import park, resolve
from keepstep.steps.errors import CheckpointDamaged

LARGE = 100
TEXT = "x" * LARGE


def back(payload: str, blobs: dict[str, str]) -> Any:
    return resolve(payload, lambda wanted: {d: blobs[d] for d in wanted if d in blobs})


keys = st.sampled_from(["a", "b", "$blob", "value", "op"])
leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "$blob", TEXT, "é" * 60, "y" * 99])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=4), max_leaves=20
)


@settings(max_examples=100, deadline=None, database=None)
@given(st.dictionaries(keys, values, max_size=4))
def test_any_state_comes_back_whatever_it_looks_like(state: dict[str, Any]) -> None:
    payload, blobs = park(codec.encode(state), state, LARGE)
    assert back(payload, blobs) == state
    operations = [{"op": "add", "path": "/a", "value": state}, {"op": "remove", "path": "/b"}]
    payload, blobs = park(codec.encode(operations), operations, LARGE)
    assert back(payload, blobs) == operations


def test_a_value_is_stored_once_wherever_it_is() -> None:
    state = {"a": TEXT, "list": [TEXT, {"deep": TEXT}], "small": "s"}
    payload, blobs = park(codec.encode(state), state, LARGE)
    assert len(blobs) == 1
    assert len(payload) < 400
    assert park(codec.encode(state), state, 10_000) == (codec.encode(state), {}), "below the threshold, as it is"


def test_of_nested_large_values_the_innermost_go_and_the_root_stays() -> None:
    state = {"doc": {"text": TEXT, "pages": 3}, "list": list(range(60))}
    payload, blobs = park(codec.encode(state), state, LARGE)
    assert sorted(map(json.loads, blobs.values()), key=str) == sorted([TEXT, list(range(60))], key=str)
    assert json.loads(payload)["doc"]["pages"] == 3
    flat = {f"k{n}": n for n in range(100)}
    assert park(codec.encode(flat), flat, LARGE)[1] == {}, "the state itself is never a large value"


def test_a_missing_value_is_damage_and_nothing_is_fetched_without_references() -> None:
    payload, _ = park(codec.encode({"a": TEXT}), {"a": TEXT}, LARGE)
    with pytest.raises(CheckpointDamaged, match="1 large values of the state are missing, sha256 "):
        resolve(payload, lambda _: {})

    def unasked(_: Any) -> Any:
        raise AssertionError("nothing is to be fetched")

    assert resolve('{"a": "b"}', unasked) == {"a": "b"}
    assert resolve(None, unasked) == []
    assert resolve('{"a": "$blob"}', unasked) == {"a": "$blob"}


def test_a_chain_with_large_values_loads_and_its_snapshots_dont_repeat_them() -> None:
    text, links, blobs = "t" * 5000, [], {}
    state: dict[str, Any] = {"text": text, "n": 0}
    one = link({}, state, 0, max_bytes=10**6, snapshot=True, large=1000)
    for n in range(1, 60):
        links.append([n - 1, one.is_snapshot, one.payload])
        blobs.update(one.blobs)
        after = {**state, "n": n}
        one, state = link(state, after, one.weight, max_bytes=10**6, large=1000), after
    links.append([59, one.is_snapshot, one.payload])
    begin = max(n for n, _, payload in links if payload.startswith('{"text"'))
    assert begin > 0
    assert len(blobs) == 1
    assert sum(len(payload) for _, _, payload in links) < 60 * 100, "and not sixty times, nor four times, the text"
    chain = "[" + ",".join(f"[{n},{json.dumps(s)},{p}]" for n, s, p in links[begin:]) + "]"
    assert assemble(back(chain, blobs), 59) == state
