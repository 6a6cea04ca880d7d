"""JSON text as it is stored: compact, Unicode kept, NaN refused."""

from __future__ import annotations

from typing import Any

from keepstep.steps import json_text


def encode(value: Any) -> str:
    """JSON text for a `json` column. ValueError on NaN and infinities: they are refused by name before this."""
    return json_text.write(value)


def encode_or_none(value: Any) -> str | None:
    """As `encode`, with None as SQL's NULL."""
    return None if value is None else encode(value)


def decode(text: str) -> Any:
    """The value of stored JSON text."""
    return json_text.read(text)
