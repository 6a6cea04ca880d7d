"""The state of a case between its model and its JSON.

A step gets a copy of its own. What it changed in place and what it returned are merged, validated by the model, and
must survive the round trip through JSON; what doesn't is refused with the path of the field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError

from keepstep.steps.errors import BadOutcome, BadState

JSON = dict[str, Any]
"""A state as plain JSON values: the keys are field names."""


def load(model: type[BaseModel], stored: Mapping[str, Any]) -> BaseModel:
    """Make the model from stored JSON; BadState names the first field that doesn't fit."""
    try:
        return model.model_validate(stored, by_name=True, by_alias=False)
    except ValidationError as error:
        raise _refused(model, error) from None


def dump(state: BaseModel) -> JSON:
    """Make JSON from a valid state, and prove that it comes back as it was."""
    model = type(state)
    try:
        stored: JSON = state.model_dump(mode="json", by_alias=False, warnings=False)
    except (PydanticSerializationError, UnicodeError, ValueError, RecursionError) as error:
        raise BadState(
            f"{model.__name__}{_unserialisable(state)} can't be JSON: {str(error).splitlines()[0]}",
            path=_unserialisable(state),
        ) from None
    refuse_what_json_lacks(stored, model.__name__)
    back = load(model, stored)
    lost = _difference(_fields(state), _fields(back), "")
    if lost is not None:
        path, value = lost
        _, reason = _unfit(value, "") or ("", f"a {type(value).__name__} doesn't come back as it was")
        raise BadState(
            f"{model.__name__}{path} doesn't survive the round trip through JSON: {reason}. Give the field a type that "
            "pydantic can restore, or keep a reference",
            path=path,
        )
    return stored


def merge(model: type[BaseModel], before: JSON, copy: BaseModel, update: Mapping[str, Any]) -> JSON:
    """The new state: `before`, with what the step changed in its copy and with what it returned.

    Raises BadOutcome if one field was changed both ways, BadState if the result doesn't fit the model or JSON.
    """
    fields = model.model_fields
    if model.model_config.get("extra") != "allow":
        for name in update:
            if name not in fields:
                raise BadState(f"{model.__name__} has no field {name!r}; it has {', '.join(fields)}", path=f"/{name}")
    untouched = _fields(load(model, before))
    both = [name for name, value in _fields(copy).items() if name in update and untouched.get(name) != value]
    if both:
        raise BadOutcome(f"the field {both[0]!r} was changed in place and also returned: do one of the two")
    return dump(load(model, {**_fields(copy), **update}))


def changes(model: type[BaseModel], returned: BaseModel) -> dict[str, Any]:
    """A whole state that a step returned, as an update of every field."""
    if not isinstance(returned, model):
        raise BadOutcome(f"the step returned a {type(returned).__name__}, its state is a {model.__name__}")
    return _fields(returned)


def refuse_what_json_lacks(value: Any, name: str = "") -> None:
    """Raise BadState for NaN, an infinity, a lone surrogate, or a value that is no JSON at all, with its path."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        found = _unfit(value, "")
        path, reason = found or ("", str(error))
        raise BadState(f"{name}{path or '/'} can't be JSON: {reason}", path=path) from None


def _fields(state: BaseModel) -> dict[str, Any]:
    return {**{name: getattr(state, name) for name in type(state).model_fields}, **(state.model_extra or {})}


def _refused(model: type[BaseModel], error: ValidationError) -> BadState:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = "".join(f"/{part}" for part in first["loc"])
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return BadState(f"{model.__name__}{path}: {first['msg']}{more}", path=path)


def _unfit(value: Any, path: str) -> tuple[str, str] | None:
    """The path of the first value that JSON can't hold, and why."""
    if isinstance(value, float) and not math.isfinite(value):
        return path, f"{value} is not a JSON number"
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            return path, f"a lone surrogate at position {error.start} is no Unicode text"
        return None
    if isinstance(value, Mapping):
        for key, item in value.items():
            found = _unfit(key, f"{path}/{key!r}") or _unfit(item, f"{path}/{key}")
            if found:
                return found
        return None
    if isinstance(value, list | tuple):
        return next((found for i, item in enumerate(value) if (found := _unfit(item, f"{path}/{i}"))), None)
    if value is None or isinstance(value, bool | int | float):
        return None
    return path, f"a {type(value).__name__} is no JSON value"


def _unserialisable(state: BaseModel) -> str:
    """The path of the first field that pydantic can't write as JSON."""
    for name in type(state).model_fields:
        try:
            state.model_dump(mode="json", include={name}, warnings=False)
        except (PydanticSerializationError, UnicodeError, ValueError, RecursionError):
            return f"/{name}"
    return ""


def _difference(a: Any, b: Any, path: str) -> tuple[str, Any] | None:
    """The first value of `a` that differs in `b`, with its path; a tuple and a list of the same items are as one."""
    if isinstance(a, BaseModel) and type(a) is type(b):
        return _difference(_fields(a), _fields(b), path)
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        return next((found for k in a if (found := _difference(a[k], b[k], f"{path}/{k}"))), None)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        pairs = enumerate(zip(a, b, strict=True))
        return next((found for i, (x, y) in pairs if (found := _difference(x, y, f"{path}/{i}"))), None)
    return None if type(a) is type(b) and a == b else (path, a)
