"""No wake-up is lost, no decision is taken twice, and a deadline comes second. See `signals.py` and `deadline.py`."""

from __future__ import annotations

import pytest

from tests.model import deadline, signals
from tests.model.deadline import Deadline
from tests.model.search import assert_caught, assert_sound
from tests.model.signals import Signals

CASES = [(kind, rule) for kind in signals.RULES for rule in signals.RULES[kind]]
PAIRS = list(deadline.TWO_BELTS)


@pytest.mark.parametrize(("kind", "at_least"), [("decision", 150), ("votes", 80), ("all", 40), ("stream", 300)])
def test_every_signal_wakes_its_wait_once(kind: str, at_least: int) -> None:
    assert_sound(Signals(kind, faults=2), at_least=at_least)


@pytest.mark.parametrize(("kind", "rule"), CASES)
def test_without_this_rule_signals_break(kind: str, rule: str) -> None:
    assert_caught(Signals(kind, without=frozenset({rule})), signals.RULES[kind][rule])


def test_an_answer_that_was_accepted_never_loses_to_the_deadline() -> None:
    assert_sound(Deadline(faults=2), at_least=300)


@pytest.mark.parametrize("rule", deadline.RULES)
def test_without_this_rule_deadlines_break(rule: str) -> None:
    assert_caught(Deadline(without=frozenset({rule})), deadline.RULES[rule])


@pytest.mark.parametrize("pair", PAIRS)
def test_without_both_of_two_belts_a_wait_is_left_twice(pair: tuple[str, str]) -> None:
    assert_caught(Deadline(without=frozenset(pair)), deadline.TWO_BELTS[pair])


@pytest.mark.parametrize("belt", [belt for pair in PAIRS for belt in pair])
def test_either_belt_is_enough(belt: str) -> None:
    assert_sound(Deadline(without=frozenset({belt})), at_least=300)
