"""Branches that end at once wait for nobody, and leave nothing undone. See `looks.py`."""

from __future__ import annotations

import pytest

from tests.model.looks import RULES, Looks
from tests.model.search import assert_caught, assert_sound


@pytest.mark.parametrize("at_once", [1, 2, 3])
@pytest.mark.parametrize("on_error", ["collect", "fail"])
def test_a_window_stays_full_although_nobody_waits_for_who_looks(on_error: str, at_once: int) -> None:
    assert_sound(Looks(on_error=on_error, at_once=at_once), at_least=2_000)


@pytest.mark.parametrize("rule", RULES)
def test_without_this_rule_something_is_left_undone(rule: str) -> None:
    assert_caught(Looks(without=frozenset({rule})), RULES[rule])
