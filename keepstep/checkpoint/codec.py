"""Values as they are stored: JSON text, compact, Unicode kept, NaN refused; arrays of UUIDs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

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


def uuids(values: Iterable[UUID | None]) -> str:
    """An array as PostgreSQL reads it. The driver would adapt each by itself, which takes twice as long."""
    written = ",".join(["NULL" if value is None else str(value) for value in values])
    return f"{{{written}}}"
