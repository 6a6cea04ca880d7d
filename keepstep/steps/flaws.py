"""What in a value JSON can't hold, and where: found only when something is to be said about it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

UNSERIALISABLE = (PydanticSerializationError, UnicodeError, ValueError, RecursionError)
"""What pydantic raises for what it can't write as JSON."""


def pointer(key: object) -> str:
    """One step of a JSON pointer (RFC 6901): `/name`, with `~` and `/` escaped."""
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


def fields_of(state: BaseModel) -> dict[str, Any]:
    return {**{name: getattr(state, name) for name in type(state).model_fields}, **(state.model_extra or {})}


def children(value: Any) -> Iterable[tuple[Any, Any]]:
    """What is one step of a path below the value."""
    if isinstance(value, BaseModel):
        return fields_of(value).items()
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


def unfit(value: Any) -> tuple[str, str] | None:
    """The path of the first value that JSON can't hold, and why."""
    try:
        return _first_unfit(value)
    except RecursionError:
        return "", "it is nested too deeply, or contains itself"


def _first_unfit(value: Any) -> tuple[str, str] | None:
    flaw = _flaw(value)
    if flaw is not None:
        return "", flaw
    for key, item in children(value):
        if isinstance(value, Mapping):
            flaw = _flaw(key) if isinstance(key, str) else f"a {type(key).__name__} is no text"
            if flaw is not None:
                return "", f"its key {key!r}: {flaw}"
        if (found := _first_unfit(item)) is not None:
            return pointer(key) + found[0], found[1]
    return None


def _flaw(value: Any) -> str | None:
    """Why this value, apart from those inside of it, is no JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value} is not a JSON number"
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            return f"a lone surrogate at position {error.start} is no Unicode text"
    elif isinstance(value, int):
        try:
            str(value)
        except ValueError:
            return f"an integer of {value.bit_length()} bits is too long to be written"
    elif not (value is None or isinstance(value, float | Mapping | list | tuple)):
        return f"a {type(value).__name__} is no JSON value"
    return None


def unserialisable(state: BaseModel) -> str:
    """The path of the first value that pydantic can't write as JSON."""
    for name, value in fields_of(state).items():
        try:
            state.model_dump(mode="json", include={name}, warnings=False)
        except UNSERIALISABLE:
            try:
                return pointer(name) + _below(value)
            except RecursionError:
                return pointer(name)
    return ""


def _below(value: Any) -> str:
    for key, item in children(value):
        try:
            to_jsonable_python(item)
        except UNSERIALISABLE:
            return pointer(key) + _below(item)
    return ""
