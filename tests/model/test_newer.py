"""What older code can't judge is left to newer code, and comes there. See `newer.py`."""

from __future__ import annotations

import pytest

from tests.model.newer import ONLY_RESULTS, RULES, Newer
from tests.model.search import assert_caught, assert_sound


@pytest.mark.parametrize(("what", "at_least"), [("signal", 12), ("results", 60)])
def test_no_answer_comes_into_a_state_of_another_version(what: str, at_least: int) -> None:
    assert_sound(Newer(what), at_least=at_least)


@pytest.mark.parametrize("what", ["signal", "results"])
@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_an_answer_is_lost_on_the_wrong_code(what: str, rule: str) -> None:
    assert_caught(Newer(what, without=frozenset({rule})), RULES[rule])


@pytest.mark.parametrize("rule", ONLY_RESULTS)
def test_without_this_rule_results_of_two_versions_meet(rule: str) -> None:
    assert_caught(Newer("results", without=frozenset({rule})), ONLY_RESULTS[rule])
