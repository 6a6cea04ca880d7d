"""JSON text as it is stored: compact, Unicode kept, NaN refused."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

_NO_JSON = ("NaN", "Infinity")


def encode(value: Any) -> str:
    """JSON text for a `json` column. ValueError on NaN and infinities: they are refused by name before this."""
    try:
        text = to_json(value).decode()  # several times as fast as the standard library's
    except PydanticSerializationError:  # nested too deeply for it, for one
        text = ""
    if not text or any(word in text for word in _NO_JSON):  # as numbers, or in somebody's words?
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text


def encode_or_none(value: Any) -> str | None:
    """As `encode`, with None as SQL's NULL."""
    return None if value is None else encode(value)


def decode(text: str) -> Any:
    """The value of stored JSON text."""
    return json.loads(text)
