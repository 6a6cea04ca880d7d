"""JSON text: what pydantic reads and writes, the standard library would have, too."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstep.steps import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_reading_is_the_standard_librarys(value: Any, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    assert same(json_text.read(text), json.loads(text))


@pytest.mark.parametrize(
    "text",
    ["-0", "-0.0", "1e400", "-1e400", "1E5", "1e-400", "0.1", '{"a":1,"a":2}', r'"\ud800"', r'"\u0000"', " [1]\n",
     "123456789012345678901234567890", "9007199254740993.0", "[" * 300 + "]" * 300, "NaN"],
)  # fmt: skip
def test_odd_texts_are_read_as_the_standard_library_reads_them(text: str) -> None:
    assert same(json_text.read(text), json.loads(text))


@pytest.mark.parametrize("text", ["", "{", "[1,]", "nul", "01", '"\x01"', "[1] 2", "9" * 5000])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as expected:
        json.loads(text)
    with pytest.raises(type(expected.value)):
        json_text.read(text)


def same(a: Any, b: Any) -> bool:
    """Equal, with the same types, the same order of keys, and the same zero."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)
