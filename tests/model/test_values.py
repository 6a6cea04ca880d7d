"""No checkpoint names a value that isn't there, whatever is folded, rewound, late or killed. See `values.py`."""

from __future__ import annotations

import pytest

from tests.model.search import assert_caught, assert_sound
from tests.model.values import RULES, TWO_BELTS, Values

PAIRS = list(TWO_BELTS)


def test_what_a_checkpoint_names_is_there_whenever_somebody_looks() -> None:
    assert_sound(Values(), at_least=20_000)


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_a_value_is_missing(rule: str) -> None:
    assert_caught(Values(without=frozenset({rule})), RULES[rule])


@pytest.mark.parametrize("pair", PAIRS)
def test_without_both_of_two_belts_a_value_is_missing(pair: tuple[str, str]) -> None:
    assert_caught(Values(without=frozenset(pair)), TWO_BELTS[pair])


@pytest.mark.parametrize("belt", [belt for pair in PAIRS for belt in pair])
def test_either_belt_is_enough(belt: str) -> None:
    assert_sound(Values(without=frozenset({belt}), faults=1), at_least=3_000)
