"""Retry: how many tries there are, and how long each of them waits."""

import dataclasses
import inspect
import math
from typing import Any

import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st
from tenacity import (
    stop_after_attempt,
    stop_after_delay,
    stop_before_delay,
    wait_chain,
    wait_combine,
    wait_exponential,
    wait_exponential_jitter,
    wait_fixed,
    wait_incrementing,
    wait_none,
    wait_random,
    wait_random_exponential,
)

from keepstep.steps.errors import DefinitionError
from keepstep.steps.retry import Retry

STRATEGIES: list[Any] = [
    wait_none(),
    wait_fixed(3),
    wait_random(1, 2),
    wait_incrementing(1, 2),
    wait_exponential(multiplier=1),
    wait_exponential_jitter(1, 60),
    wait_random_exponential(max=10),
    wait_chain(wait_fixed(1), wait_fixed(2)),
    wait_combine(wait_fixed(1), wait_random(0, 1)),
    wait_fixed(1) + wait_random(0, 1),
    lambda _: 2.5,
]


@pytest.mark.parametrize("wait", STRATEGIES, ids=lambda w: type(w).__name__)
@settings(max_examples=8, deadline=None, database=None)
@given(attempts=st.integers(1, 2000), failures=st.integers(1, 2000), elapsed=st.floats(0, 1e9))
def test_there_is_a_wait_as_long_as_there_are_attempts(wait: Any, attempts: int, failures: int, elapsed: float) -> None:
    delay = Retry(attempts=attempts, wait=wait).delay(failures, elapsed, OSError())
    assert (delay is None) == (failures >= attempts)
    assert delay is None or 0 <= delay <= 1e9


def test_the_first_failure_of_one_attempt_is_the_last() -> None:
    assert Retry(attempts=1).delay(1, 0) is None
    assert Retry(attempts=2, wait=wait_fixed(4)).delay(1, 0) == 4.0


def test_a_chain_of_waits_goes_by_the_number_of_failures() -> None:
    retry = Retry(attempts=9, wait=wait_chain(wait_fixed(1), wait_fixed(5), wait_fixed(30)))
    assert [retry.delay(n, 0) for n in (1, 2, 3, 4, 8)] == [1, 5, 30, 30, 30]


@pytest.mark.parametrize(("elapsed", "delay"), [(0, 7.0), (59.9, 7.0), (60, None), (1e9, None)])
def test_a_stop_after_a_delay_counts_from_when_the_case_reached_the_step(elapsed: float, delay: float | None) -> None:
    assert Retry(attempts=99, wait=wait_fixed(7), stop=stop_after_delay(60)).delay(1, elapsed) == delay


@pytest.mark.parametrize(("elapsed", "delay"), [(0, 7.0), (52.9, 7.0), (53, None)])
def test_a_stop_before_a_delay_knows_the_wait_to_come(elapsed: float, delay: float | None) -> None:
    assert Retry(attempts=99, wait=wait_fixed(7), stop=stop_before_delay(60)).delay(1, elapsed) == delay


def test_stops_combine() -> None:
    retry = Retry(attempts=99, wait=wait_fixed(1), stop=stop_after_attempt(3) | stop_after_delay(60))
    assert [retry.delay(n, 0) for n in (1, 2, 3)] == [1, 1, None]
    assert retry.delay(1, 61) is None


def test_a_wait_may_look_at_the_error() -> None:
    class RateLimited(Exception):
        retry_after = 17

    retry = Retry(wait=tenacity.wait_exception(lambda error: getattr(error, "retry_after", 1)))
    assert retry.delay(1, 0, RateLimited()) == 17
    assert retry.delay(1, 0, KeyboardInterrupt()) == 1


@pytest.mark.parametrize(("wait", "delay"), [(math.inf, 1e9), (-5, 0), (math.nan, 0), (1e300, 1e9)])
def test_a_delay_is_always_something_that_a_timestamp_can_hold(wait: float, delay: float) -> None:
    assert Retry(wait=lambda _: wait).delay(1, 0) == delay  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"attempts": "3"},
        {"attempts": 1.5},
        {"wait": 5},
        {"wait": None},
        {"stop": 60},
        {"stop": "never"},
    ],
)
def test_a_policy_that_cant_work_is_refused_when_it_is_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError, match=r"test_retry\.py:\d+: Retry\(.*needed"):
        Retry(**wrong)


def test_a_misspelt_option_is_refused_at_its_line_with_those_that_exist() -> None:
    with pytest.raises(DefinitionError) as refusal:
        Retry(attempt=2)  # type: ignore[arg-type]
    at = inspect.getsourcelines(test_a_misspelt_option_is_refused_at_its_line_with_those_that_exist)[1] + 2
    assert str(refusal.value) == (
        f"{__file__}:{at}: Retry() has no option 'attempt'; did you mean 'attempts'? Its options: attempts, wait, stop"
    )


def test_a_policy_is_a_value_that_cant_be_changed() -> None:
    one, other = Retry(attempts=3, wait=wait_fixed(1)), Retry()
    assert (one.attempts, other.attempts, other.stop) == (3, 5, None)
    assert other == Retry()
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.attempts = 4  # type: ignore[misc]
    assert dataclasses.replace(one, attempts=4).attempts == 4
