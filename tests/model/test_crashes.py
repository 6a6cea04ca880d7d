"""A step answers for its own faults, and a deploy for none of them. See `crashes.py` and `deploy.py`."""

from __future__ import annotations

import pytest

from tests.model import crashes, deploy
from tests.model.crashes import Crashes
from tests.model.deploy import Deploy
from tests.model.search import assert_caught, assert_sound

CASES = [(kind, rule) for kind in crashes.RULES for rule in crashes.RULES[kind]]


@pytest.mark.parametrize(
    ("kind", "at_least"), [("well", 25), ("raises", 100), ("hangs", 90), ("kills", 90), ("drowns", 60)]
)
def test_a_step_is_held_for_its_own_faults_only(kind: str, at_least: int) -> None:
    assert_sound(Crashes(kind), at_least=at_least)


@pytest.mark.parametrize(("kind", "rule"), CASES)
def test_without_this_rule_the_innocent_are_held_or_the_guilty_go_on(kind: str, rule: str) -> None:
    assert_caught(Crashes(kind, without=frozenset({rule})), crashes.RULES[kind][rule])


@pytest.mark.parametrize("same_schema", [False, True])
@pytest.mark.parametrize("removed", [False, True])
def test_two_versions_at_once_drop_no_case(same_schema: bool, removed: bool) -> None:
    assert_sound(Deploy(same_schema=same_schema, removed=removed), at_least=70)


def test_a_policy_that_was_tightened_is_kept_by_whoever_calls() -> None:
    assert_sound(Deploy(tightened=True), at_least=60)


def test_a_removed_step_is_passed_over_and_its_key_is_nobody_elses() -> None:
    assert_sound(Deploy(replaced=True), at_least=60)


@pytest.mark.parametrize("rule", deploy.RULES)
def test_without_this_rule_a_deploy_breaks(rule: str) -> None:
    assert_caught(Deploy(without=frozenset({rule})), deploy.RULES[rule])


@pytest.mark.parametrize("rule", deploy.ONLY_REMOVED)
def test_without_this_rule_a_removed_step_goes_round_for_ever(rule: str) -> None:
    assert_caught(Deploy(without=frozenset({rule}), removed=True), deploy.ONLY_REMOVED[rule])


@pytest.mark.parametrize("rule", deploy.ONLY_TIGHTENED)
def test_without_this_rule_a_tightened_policy_comes_too_late(rule: str) -> None:
    assert_caught(Deploy(without=frozenset({rule}), tightened=True), deploy.ONLY_TIGHTENED[rule])


@pytest.mark.parametrize("rule", deploy.ONLY_REPLACED)
def test_without_this_rule_a_replaced_step_breaks(rule: str) -> None:
    assert_caught(Deploy(without=frozenset({rule}), replaced=True), deploy.ONLY_REPLACED[rule])
