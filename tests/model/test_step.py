"""The life of a step, whatever is killed, lost, repeated or late. See `step.py`."""

from __future__ import annotations

import pytest

from tests.model.search import assert_caught, assert_sound
from tests.model.step import RULES, Step
from tests.model.step_sweep import ONLY_FASTER


def test_a_case_ends_once_and_no_result_is_lost_whatever_three_faults_come() -> None:
    assert_sound(Step(faults=3), at_least=100_000)


def test_a_timer_is_survived_too() -> None:
    assert_sound(Step(timer=True), at_least=5_000)


def test_without_faults_there_is_little_to_see() -> None:
    assert_sound(Step(faults=0), at_least=15)


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_the_protocol_breaks(rule: str) -> None:
    assert_caught(Step(without=frozenset({rule}), timer="sleepers" in rule), RULES[rule])


@pytest.mark.parametrize("rule", ONLY_FASTER)
def test_what_is_only_there_for_speed_may_be_missing(rule: str) -> None:
    assert_sound(Step(without=frozenset({rule})), at_least=6_000)


@pytest.mark.slow
@pytest.mark.parametrize("wide", [Step(steps=3, slots=3), Step(timer=True, faults=3), Step(slots=3, faults=3)], ids=str)
def test_wider_bounds_show_nothing_new(wide: Step) -> None:
    assert_sound(wide, at_least=70_000)
