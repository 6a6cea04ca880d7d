"""What a policy promises about a call whose outcome nobody knows. See `doubt.py`."""

from __future__ import annotations

import pytest

from tests.model.doubt import RULES, TWICE, Doubt
from tests.model.search import assert_caught, assert_sound

CASES = [(policy, rule) for policy in RULES for rule in RULES[policy]]


def test_hold_never_calls_twice_unless_an_operator_says_so() -> None:
    assert_sound(Doubt("hold"), at_least=10_000)


def test_verify_never_calls_twice_unless_an_operator_says_so() -> None:
    assert_sound(Doubt("verify"), at_least=80_000)


def test_a_verify_that_never_knows_holds_the_case() -> None:
    assert_sound(Doubt("verify", knows=False, decisions=1), at_least=5_000)


def test_retry_takes_effect_once_if_the_api_knows_keys() -> None:
    assert_sound(Doubt("retry", dedupes=True, decisions=1), at_least=15_000)


def test_retry_takes_effect_twice_if_it_does_not() -> None:
    """What can't be promised: the documents say so."""
    assert_caught(Doubt("retry"), TWICE)


def test_verify_is_as_good_as_what_it_says() -> None:
    assert_caught(Doubt("verify", lies=True), TWICE)


@pytest.mark.parametrize(("policy", "rule"), CASES)
def test_without_this_rule_the_promise_breaks(policy: str, rule: str) -> None:
    decisions = 2 if policy == "hold" else 1
    assert_caught(Doubt(policy, without=frozenset({rule}), decisions=decisions), RULES[policy][rule])


@pytest.mark.slow
@pytest.mark.parametrize("wide", [Doubt("hold", faults=5, decisions=3), Doubt("verify", faults=4)], ids=str)
def test_wider_bounds_show_nothing_new(wide: Doubt) -> None:
    assert_sound(wide, at_least=100_000)
