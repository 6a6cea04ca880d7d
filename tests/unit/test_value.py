"""Values of the hot path are equal, hashed and replaced as frozen dataclasses are."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from keepstep.checkpoint import codec
from keepstep.checkpoint.ring import Delivery

A, B = UUID(int=1), UUID(int=2)


def test_equal_values_are_one_key() -> None:
    one, same = Delivery(case=A, seq=1), Delivery(case=UUID(int=1), seq=1)
    assert one == same
    assert {one: "x"}[same] == "x"
    assert replace(one, seq=2) == Delivery(case=A, seq=2) != one


def test_fields_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        Delivery(A, 1)  # type: ignore[call-arg, misc]


def test_uuids_are_written_as_postgresql_reads_them() -> None:
    assert codec.uuids([]) == "{}"
    assert codec.uuids([A, None, B]) == f"{{{A},NULL,{B}}}"
