"""An operator may say anything at any time. See `steering.py`."""

from __future__ import annotations

import pytest

from tests.model.search import assert_caught, assert_sound
from tests.model.steering import RULES, TERMINAL_LEFT, TWO_BELTS, Steering

PAIRS = list(TWO_BELTS)


def test_no_result_lands_in_another_visit_whatever_operators_say() -> None:
    assert_sound(Steering(), at_least=200_000)


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_the_protocol_breaks(rule: str) -> None:
    assert_caught(Steering(without=frozenset({rule})), RULES[rule])


@pytest.mark.parametrize("pair", PAIRS)
def test_without_both_of_two_belts_a_late_commit_lands(pair: tuple[str, str]) -> None:
    assert_caught(Steering(without=frozenset(pair)), TWO_BELTS[pair])
    assert_caught(Steering(without=frozenset(pair)), TERMINAL_LEFT)


@pytest.mark.parametrize("belt", [belt for pair in PAIRS for belt in pair])
def test_either_belt_is_enough(belt: str) -> None:
    assert_sound(Steering(without=frozenset({belt}), faults=1), at_least=25_000)


@pytest.mark.slow
def test_wider_bounds_show_nothing_new() -> None:
    assert_sound(Steering(faults=3), at_least=600_000)
