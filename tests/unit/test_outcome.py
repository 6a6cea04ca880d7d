"""What a step may say is checked where it is said, as far as that is possible."""

import math
from datetime import timedelta
from typing import Any

import pytest

from keepstep.steps.outcome import fail, finish, goto, sleep
from keepstep.steps.waiting import wait_for


def test_fields_may_have_any_name_even_those_of_the_parameters() -> None:
    assert goto("there", step=1, update=2).update == {"step": 1, "update": 2}
    assert finish(update=1, why=2).update == {"update": 1, "why": 2}
    assert wait_for("signal", update={"name": 1}).update == {"name": 1}


@pytest.mark.parametrize(("duration", "seconds"), [(0, 0), (5, 5), (0.5, 0.5), (timedelta(days=1), 86400)])
def test_a_duration_is_seconds_or_a_timedelta(duration: Any, seconds: float) -> None:
    assert sleep(duration).seconds == seconds
    assert wait_for("a", timeout=duration).timeout == seconds


@pytest.mark.parametrize("duration", [-1, math.nan, math.inf, 1e10, timedelta(-1), timedelta.max])
def test_a_duration_that_no_timer_can_hold_is_refused(duration: Any) -> None:
    with pytest.raises(ValueError, match="a duration must be finite and not negative"):
        sleep(duration)
    with pytest.raises(ValueError, match="a duration"):
        wait_for("a", timeout=duration)


def test_on_timeout_without_a_timeout_is_refused() -> None:
    with pytest.raises(ValueError, match="has no timeout"):
        wait_for("a", on_timeout="b")
    assert wait_for("a", timeout=0, on_timeout="b").timeout == 0


def test_an_outcome_cant_be_changed_once_it_is_made() -> None:
    outcome: Any = fail("why")
    with pytest.raises(AttributeError):
        outcome.why = "because"
