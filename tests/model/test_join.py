"""A parent goes on once, when all of its branches have ended. See `join.py`."""

from __future__ import annotations

import pytest

from tests.model.join import CROWDED, RULES, TWO_BELTS, Join
from tests.model.search import assert_caught, assert_sound

PAIRS = list(TWO_BELTS)


@pytest.mark.parametrize("on_error", ["collect", "fail"])
def test_a_parent_is_joined_once_by_the_last_of_its_branches(on_error: str) -> None:
    assert_sound(Join(on_error=on_error), at_least=40_000)


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_a_join_breaks(rule: str) -> None:
    items = 3 if RULES[rule] == CROWDED else 2
    assert_caught(Join(without=frozenset({rule}), on_error="fail", items=items), RULES[rule])


@pytest.mark.parametrize("pair", PAIRS)
def test_without_both_of_two_belts_an_item_has_two_children(pair: tuple[str, str]) -> None:
    assert_caught(Join(without=frozenset(pair)), TWO_BELTS[pair])


@pytest.mark.parametrize("belt", [second for _, second in PAIRS])
def test_the_second_belt_alone_may_be_missing(belt: str) -> None:
    assert_sound(Join(without=frozenset({belt}), items=2), at_least=3_000)


@pytest.mark.slow
def test_wider_bounds_show_nothing_new() -> None:
    assert_sound(Join(on_error="fail", faults=2), at_least=130_000)
