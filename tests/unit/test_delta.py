"""What a step changed comes back exactly, is small, and a damaged change is refused by name."""

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from keepstep.checkpoint.delta import apply, diff
from keepstep.steps.errors import CheckpointDamaged

text = st.text(alphabet=st.sampled_from("ab/~01-é\0"), max_size=3)
scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([0.0, -0.0, 1.0, 1.5, 1e300]) | text
values = st.recursive(scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(text, v, max_size=4), max_leaves=12)
quick = settings(max_examples=40, deadline=None, database=None)


def strict(value: Any) -> str:
    """JSON in which 1, 1.0 and true differ, and the order of keys doesn't count."""
    return json.dumps(value, sort_keys=True)


@quick
@given(values, values)
@example(1, True)
@example([1], [1.0])
@example({"": {"": 1}}, {"": {"": True}})
@example({"~1": 0, "/": 1}, {"~1": 1, "/": 0})
@example([[1, 2], [3]], [[1], [3, 4]])
def test_a_change_leads_from_any_json_to_any_other(before: Any, after: Any) -> None:
    operations = json.loads(json.dumps(diff(before, after)))
    assert strict(apply(copy.deepcopy(before), operations)) == strict(after)


@quick
@given(values)
def test_the_same_json_is_no_change(value: Any) -> None:
    assert diff(value, copy.deepcopy(value)) == []


@quick
@given(values, values)
def test_a_change_never_touches_what_it_compares(before: Any, after: Any) -> None:
    was = strict(before), strict(after)
    diff(before, after)
    assert (strict(before), strict(after)) == was


@quick
@given(st.dictionaries(text, values, max_size=4), st.dictionaries(text, values, max_size=4))
def test_a_change_below_the_root_is_hardly_larger_than_the_whole(before: Any, after: Any) -> None:
    operations = diff({"field": before}, {"field": after})
    assert len(json.dumps(operations)) <= len(json.dumps(after)) + 100


def test_a_thousand_small_items_are_written_once_and_not_as_a_thousand_operations() -> None:
    (operation,) = diff({"n": [], "big": "x" * 9000}, {"n": list(range(1000)), "big": "x" * 9000})
    assert operation == {"op": "replace", "path": "/n", "value": list(range(1000))}


@pytest.mark.parametrize("added", [1, 2, 5])
def test_appended_items_are_appends(added: int) -> None:
    before = [{"role": "user", "content": f"message {i} " * 5} for i in range(10)]
    after = before + [{"role": "tool", "content": "new"}] * added
    operations = diff({"messages": before}, {"messages": after})
    assert operations == [{"op": "add", "path": "/messages/-", "value": {"role": "tool", "content": "new"}}] * added


def test_items_removed_at_the_end_are_removed_from_behind() -> None:
    assert diff(["long item"] * 9, ["long item"] * 7) == [
        {"op": "remove", "path": "/8"},
        {"op": "remove", "path": "/7"},
    ]


def test_one_changed_item_of_a_long_list_is_one_operation() -> None:
    before = [{"id": i, "text": "words " * 9} for i in range(50)]
    after = copy.deepcopy(before)
    after[7]["id"] = "seven"
    assert diff({"items": before}, {"items": after}) == [{"op": "replace", "path": "/items/7/id", "value": "seven"}]


def test_slashes_and_tildes_in_keys_are_escaped_as_rfc_6901_says() -> None:
    assert diff({"a/b": 1, "m~n": 1, "~1": 1}, {"a/b": 2, "m~n": 2, "~1": 2}) == [
        {"op": "replace", "path": "/a~1b", "value": 2},
        {"op": "replace", "path": "/m~0n", "value": 2},
        {"op": "replace", "path": "/~01", "value": 2},
    ]


def test_what_was_applied_shares_nothing_with_the_stored_operations() -> None:
    operations = [
        {"op": "add", "path": "/new", "value": {"deep": [1]}},
        {"op": "replace", "path": "/old", "value": [2]},
        {"op": "add", "path": "/list/-", "value": {"x": []}},
        {"op": "add", "path": "/list/0", "value": [3]},
        {"op": "replace", "path": "/list/0", "value": [4]},
    ]
    stored = copy.deepcopy(operations)
    state = apply({"old": 0, "list": []}, operations)
    state["new"]["deep"].append("later")
    state["old"].append("later")
    state["list"][1]["x"].append("later")
    state["list"][0].append("later")
    assert operations == stored
    root = [{"op": "replace", "path": "", "value": {"a": []}}]
    apply({}, root)["a"].append("later")
    assert root == [{"op": "replace", "path": "", "value": {"a": []}}]


STATE = {"a": {"b": [1, {"c": 2}]}, "n": 1, "s": "text", "none": None}
NONSENSE: list[Any] = [
    None,
    5,
    "add",
    {"op": "add", "path": "/x", "value": 1},
    {},
    [None],
    [5],
    ["add"],
    [[]],
    [{}],
    [{"op": "add"}],
    [{"path": "/n"}],
    [{"op": "add", "path": "/x"}],
    [{"op": "replace", "path": "/n"}],
    [{"op": "replace", "path": ""}],
    [{"op": "remove", "path": ""}],
    [{"op": "move", "from": "/a", "path": "/b"}],
    [{"op": "test", "path": "/n", "value": 1}],
    [{"op": None, "path": "/n", "value": 1}],
    [{"op": ["add"], "path": "/n", "value": 1}],
    [{"op": "add", "path": None, "value": 1}],
    [{"op": "add", "path": 7, "value": 1}],
    [{"op": "add", "path": ["n"], "value": 1}],
    [{"op": "add", "path": "n", "value": 1}],
    [{"op": "add", "path": "n/x", "value": 1}],
    [{"op": "add", "path": "/n~2", "value": 1}],
    [{"op": "add", "path": "/n~", "value": 1}],
    [{"op": "add", "path": "/n/x", "value": 1}],
    [{"op": "add", "path": "/none/x", "value": 1}],
    [{"op": "add", "path": "/s/0", "value": 1}],
    [{"op": "add", "path": "/missing/x", "value": 1}],
    [{"op": "replace", "path": "/missing", "value": 1}],
    [{"op": "remove", "path": "/missing"}],
    [{"op": "add", "path": "/a/b/3", "value": 1}],
    [{"op": "replace", "path": "/a/b/2", "value": 1}],
    [{"op": "remove", "path": "/a/b/2"}],
    [{"op": "remove", "path": "/a/b/-"}],
    [{"op": "replace", "path": "/a/b/-", "value": 1}],
    [{"op": "add", "path": "/a/b/-1", "value": 1}],
    [{"op": "replace", "path": "/a/b/-1/c", "value": 1}],
    [{"op": "replace", "path": "/a/b/01", "value": 1}],
    [{"op": "replace", "path": "/a/b/ 1", "value": 1}],
    [{"op": "replace", "path": "/a/b/+1", "value": 1}],
    [{"op": "replace", "path": "/a/b/1_0", "value": 1}],
    [{"op": "replace", "path": "/a/b/١", "value": 1}],
    [{"op": "replace", "path": "/a/b/x", "value": 1}],
    [{"op": "replace", "path": f"/a/b/{'9' * 5000}", "value": 1}],
    [{"op": "replace", "path": "/a/b/-/c", "value": 1}],
    [{"op": "add", "path": "/x", "value": 1}, {"op": "remove", "path": "/y"}],
]


@pytest.mark.parametrize("operations", NONSENSE, ids=lambda o: repr(o)[:60])
def test_nonsense_is_a_damaged_checkpoint(operations: Any) -> None:
    with pytest.raises(CheckpointDamaged):
        apply(copy.deepcopy(STATE), operations)


@quick
@given(
    values,
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={"op": st.sampled_from(["add", "remove", "replace", "x"]), "path": text | values, "value": values},
        )
        | values,
        max_size=3,
    )
    | values,
)
def test_whatever_is_stored_it_applies_or_is_damaged(state: Any, operations: Any) -> None:
    try:
        json.dumps(apply(state, operations))
    except CheckpointDamaged:
        return


def test_the_refusal_shows_the_operation_and_stays_short() -> None:
    operation = {"op": "remove", "path": "/missing", "value": "x" * 100_000}
    with pytest.raises(CheckpointDamaged, match=r"'/missing'.*doesn't apply") as refusal:
        apply({}, [operation])
    assert len(str(refusal.value)) < 300
