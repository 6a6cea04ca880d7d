"""A value as JSON text: compact, in Unicode, and only what JSON can hold."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

_NO_JSON = ("NaN", "Infinity")


def write(value: Any) -> str:
    """The text of what has JSON's types already. ValueError for NaN, infinities, lone surrogates, and too deep nesting.

    pydantic's writer is several times as fast as the standard library's, which has the last word where they differ.
    """
    try:
        text = to_json(value).decode()
    except PydanticSerializationError:  # nested too deeply for it, for one
        return strictly(value)
    if any(word in text for word in _NO_JSON):  # as numbers, or in somebody's words?
        return strictly(value)
    return text


def read(text: str) -> Any:
    """The value of JSON text. pydantic's reader is several times as fast; what it refuses goes to the standard one."""
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:  # nested too deeply for it, for one
        return json.loads(text)


def strictly(value: Any) -> str:
    """The text, and TypeError for what is no JSON value, such as a date; ValueError as above."""
    text = _ENCODER.encode(value)
    text.encode("utf-8")
    return text


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
