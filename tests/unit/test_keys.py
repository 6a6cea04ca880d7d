"""Thread ids are checked, case ids never collide, and a step's key stays while its checkpoint does."""

from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstep.steps.errors import BadThreadId
from keepstep.steps.keys import MAX_THREAD_ID, case_id, check_thread_id, idempotency_key

quick = settings(max_examples=40, deadline=None, database=None)


class Numbers(StrEnum):
    FIRST = "APP-1"


@pytest.mark.parametrize(
    "thread_id", ["A", "x" * 255, "😀" * 255, "a b/c[3]", " APP ", "é", Numbers.FIRST, "\n.", "日本"]
)
def test_any_business_key_up_to_255_characters_is_a_thread_id(thread_id: str) -> None:
    assert check_thread_id(thread_id) is thread_id


@pytest.mark.parametrize(
    ("thread_id", "message"),
    [
        ("", "empty"),
        (" \t\n", "empty"),
        ("x" * 256, "256 characters, the most is 255"),
        ("x" * 10**6, "1000000 characters"),
        ("a\0b", "NUL"),
        ("a\ud800", "lone surrogate at position 1"),
        (7, "not int: use str"),
        (None, "not NoneType"),
        (b"APP-1", "not bytes"),
        (uuid4(), "not UUID"),
    ],
)
def test_what_cant_be_a_thread_id_is_refused_with_a_reason(thread_id: Any, message: str) -> None:
    with pytest.raises(BadThreadId, match=message) as refusal:
        check_thread_id(thread_id)
    assert len(str(refusal.value)) < 400
    str(refusal.value).encode()  # it can be logged


@quick
@given(st.text(max_size=4), st.text(max_size=4), st.text(max_size=4), st.text(max_size=4))
def test_two_pairs_never_share_a_case_id(w1: str, t1: str, w2: str, t2: str) -> None:
    try:
        same = case_id(w1, t1) == case_id(w2, t2)
    except UnicodeEncodeError:
        return  # lone surrogates: refused before
    assert same == ((w1, t1) == (w2, t2))


@pytest.mark.parametrize(
    ("one", "other"),
    [(("ab", "c"), ("a", "bc")), (("a", "1:b"), ("a1:", "b")), (("a", ""), ("", "a")), (("1:a", "b"), ("1", ":ab"))],
)
def test_case_ids_tell_apart_what_reads_alike(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert case_id(*one) != case_id(*other)


def test_a_case_id_is_stable_across_releases() -> None:
    assert case_id("intake", "APP-1042") == case_id("intake", "APP-1042")
    assert case_id("intake", "APP-1042") == UUID("ffa7f82e-e92e-5d5e-ac0c-e2c39e744eb4")


@quick
@given(
    st.uuids(), st.integers(0, 10**6), st.integers(0, 10**6), st.text("abc:1", max_size=3), st.text("abc:1", max_size=3)
)
def test_a_key_is_the_same_on_every_attempt_and_another_at_every_other_checkpoint(
    run: UUID, seq: int, later: int, step: str, other: str
) -> None:
    assert idempotency_key(run, seq, step) == idempotency_key(run, seq, step)
    assert (idempotency_key(run, seq, step) == idempotency_key(run, later, other)) == ((seq, step) == (later, other))


def test_another_run_has_other_keys() -> None:
    assert idempotency_key(uuid4(), 3, "pay") != idempotency_key(uuid4(), 3, "pay")


def test_the_limit_leaves_room_in_an_index_row() -> None:
    assert 4 * MAX_THREAD_ID + 4 * 100 < 2700  # a B-tree entry of PostgreSQL
