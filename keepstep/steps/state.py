"""The state of a case between its model and its JSON.

A step gets a copy of its own. What it changed in place and what it returned are merged, validated by the model, and
must survive the round trip through JSON; what doesn't is refused with the path of the field.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from keepstep.steps import json_text
from keepstep.steps.errors import BadOutcome, BadState

JSON = dict[str, Any]
"""A state as plain JSON values: the keys are field names."""


_SCALARS = frozenset({str, int, float, bool, type(None)})
_UNSERIALISABLE = (PydanticSerializationError, UnicodeError, ValueError, RecursionError)


def load(model: type[BaseModel], stored: Mapping[str, Any], text: str | None = None) -> BaseModel:
    """Make the model from stored JSON; BadState names the first field that doesn't fit. text: its JSON, if it is known.

    Validated as JSON, not as Python values: so a strict model takes its dates and tuples back.
    """
    return _from_json(model, stored, text or text_of(stored, model.__name__))


def text_of(stored: Mapping[str, Any], name: str = "") -> str:
    """The text of a JSON value as it is stored: compact, in Unicode. BadState names what can't be JSON."""
    return _encode_plain(stored, name)


class Stored(NamedTuple):
    """A state as JSON, and its text as it is stored."""

    state: JSON
    text: str


def dump(state: BaseModel) -> JSON:
    """Make JSON from a valid state, and prove that it comes back as it was."""
    return store(state).state


def store(state: BaseModel) -> Stored:
    """The same, with the text."""
    model = type(state)
    try:
        # round_trip: what can be loaded again, so no computed fields
        stored: Any = state.model_dump(mode="json", by_alias=False, round_trip=True, warnings=False)
    except _UNSERIALISABLE as error:
        path = _unserialisable(state)
        raise BadState(f"{model.__name__}{path} can't be JSON: {str(error).splitlines()[0]}", path=path) from None
    if not isinstance(stored, dict):
        raise BadState(f"{model.__name__} becomes a {type(stored).__name__} in JSON, and not an object with its fields")
    text = _encode_plain(stored, model.__name__)
    back = _from_json(model, stored, text)
    lost = _difference(state, back)
    if lost is not None:
        path, value = lost
        _, reason = _unfit(value) or ("", f"a {type(value).__name__} doesn't come back as it was")
        raise BadState(
            f"{model.__name__}{path} doesn't survive the round trip through JSON: {reason}. Give the field a type that "
            "pydantic can restore, or keep a reference",
            path=path,
        )
    return Stored(stored, text)


def merge(model: type[BaseModel], before: JSON, copy: BaseModel, update: Mapping[str, Any]) -> JSON:
    """The new state, see `merged`."""
    return merged(model, before, copy, update).state


def merged(model: type[BaseModel], before: JSON, copy: BaseModel, update: Mapping[str, Any]) -> Stored:
    """The new state: `before`, with what the step changed in its copy and with what it returned.

    Raises BadOutcome if one field was changed both ways, BadState if the result doesn't fit the model or JSON.
    """
    fields = model.model_fields
    if model.model_config.get("extra") != "allow":
        for name in update:
            if name not in fields:
                raise BadState(
                    f"{model.__name__} has no field {name!r}; it has {', '.join(fields)}", path=pointer(name)
                )
    changed = _fields(copy)
    if update and not _untouched(before, copy, update):
        _refuse_changed_both_ways(before, _fields(load(model, before)), changed, update)
    whole = {**changed, **update}
    return store(_made(model, whole, lambda: model.model_validate(whole, by_name=True, by_alias=False)))


def changes(model: type[BaseModel], returned: BaseModel) -> dict[str, Any]:
    """A whole state that a step returned, as an update of every field."""
    if not isinstance(returned, model):
        raise BadOutcome(f"the step returned a {type(returned).__name__}, its state is a {model.__name__}")
    return _fields(returned)


def refuse_what_json_lacks(value: Any, name: str = "") -> None:
    """Raise BadState for NaN, an infinity, a lone surrogate, a key or value that is no JSON at all, with its path."""
    if (found := _unfit(value)) is not None:
        path, reason = found
        raise BadState(f"{name}{path or '/'} can't be JSON: {reason}", path=path)
    _encode(value, name)


def pointer(key: object) -> str:
    """One step of a JSON pointer (RFC 6901): `/name`, with `~` and `/` escaped."""
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


def _fields(state: BaseModel) -> dict[str, Any]:
    return {**{name: getattr(state, name) for name in type(state).model_fields}, **(state.model_extra or {})}


def _children(value: Any) -> Iterable[tuple[Any, Any]]:
    """What is one step of a path below the value."""
    if isinstance(value, BaseModel):
        return _fields(value).items()
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, list | tuple) else ()


def _untouched(before: JSON, copy: BaseModel, names: Iterable[str]) -> bool:
    """Whether these fields of the copy are still written as they were: quick to say, without making the model again."""
    try:
        written = copy.model_dump(mode="json", include=set(names), by_alias=False, round_trip=True, warnings=False)
    except _UNSERIALISABLE:
        return False
    return all(n in before and n in written and _difference(before[n], written[n]) is None for n in names)


def _refuse_changed_both_ways(
    before: JSON, untouched: Mapping[str, Any], changed: Mapping[str, Any], update: Mapping[str, Any]
) -> None:
    for name in update:
        if name not in changed or (name in untouched and name not in before):
            continue  # not stored so far: a default factory may say something else each time
        was, now = untouched.get(name), changed[name]
        if name not in untouched or (was != now and _difference(was, now) is not None):
            raise BadOutcome(f"the field {name!r} was changed in place and also returned: do one of the two")


# ------------------------------------------------------------------------------------------------ making the model
def _encode(value: Any, name: str) -> str:
    """The text of a value as it is stored: compact, in Unicode."""
    try:
        return json_text.strictly(value)
    except (TypeError, ValueError, RecursionError) as error:
        path, reason = _unfit(value) or ("", str(error))
        raise BadState(f"{name}{path or '/'} can't be JSON: {reason}", path=path) from None


def _encode_plain(value: Any, name: str) -> str:
    """The same, quicker, of what has JSON's types already: only numbers that are none are still looked for."""
    try:
        return json_text.write(value)
    except (*_UNSERIALISABLE, TypeError):
        return _encode(value, name)  # which says where


def _from_json(model: type[BaseModel], stored: Mapping[str, Any], text: str) -> BaseModel:
    return _made(model, stored, lambda: model.model_validate_json(text, by_name=True, by_alias=False))


def _made(model: type[BaseModel], given: Mapping[str, Any], make: Callable[[], BaseModel]) -> BaseModel:
    try:
        return make()
    except ValidationError as error:
        raise _refused(model, given, error) from None
    except Exception as error:  # a user's validator may raise anything
        raised = traceback.format_exception_only(error)[-1].strip()
        raise BadState(f"{model.__name__}: its validation raised {raised}") from error


def _refused(model: type[BaseModel], given: Mapping[str, Any], error: ValidationError) -> BadState:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid" and (found := _unfit(given)) is not None:  # such as a number with 5,000 digits
        return BadState(f"{model.__name__}{found[0] or '/'} can't be JSON: {found[1]}", path=found[0])
    path = _path(first["loc"], given, is_missing=first["type"] == "missing")
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return BadState(f"{model.__name__}{path}: {first['msg']}{more}", path=path)


def _path(location: tuple[int | str, ...], value: Any, *, is_missing: bool) -> str:
    """Pydantic's location as a JSON pointer: the tags of unions in it are no part of the JSON."""
    path = ""
    for part in location:
        below = {str(key): item for key, item in _children(value)}
        if str(part) in below:
            path, value = path + pointer(part), below[str(part)]
    return path + pointer(location[-1]) if is_missing else path


# ------------------------------------------------------------------------------------------------ finding the culprit
def _unfit(value: Any) -> tuple[str, str] | None:
    """The path of the first value that JSON can't hold, and why."""
    try:
        return _first_unfit(value)
    except RecursionError:
        return "", "it is nested too deeply, or contains itself"


def _first_unfit(value: Any) -> tuple[str, str] | None:
    flaw = _flaw(value)
    if flaw is not None:
        return "", flaw
    for key, item in _children(value):
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


def _unserialisable(state: BaseModel) -> str:
    """The path of the first value that pydantic can't write as JSON."""
    for name, value in _fields(state).items():
        try:
            state.model_dump(mode="json", include={name}, warnings=False)
        except _UNSERIALISABLE:
            try:
                return pointer(name) + _unserialisable_below(value)
            except RecursionError:
                return pointer(name)
    return ""


def _unserialisable_below(value: Any) -> str:
    for key, item in _children(value):
        try:
            to_jsonable_python(item)
        except _UNSERIALISABLE:
            return pointer(key) + _unserialisable_below(item)
    return ""


def _all_scalars(a: Iterable[Any], b: Iterable[Any]) -> bool:
    """Whether both have the same types in the same order, and nothing with an inside. True and 1 are two types."""
    kinds = list(map(type, a))
    return _SCALARS.issuperset(kinds) and kinds == list(map(type, b))


def _difference(a: Any, b: Any) -> tuple[str, Any] | None:
    """The first value of `a` that differs in `b`, with its path; a tuple and a list of the same items are as one."""
    kind = type(a)
    if kind in _SCALARS:
        alike = kind is type(b) or {kind, type(b)} == {int, float}  # a default of 0 for a float is the same value
        return None if alike and a == b else ("", a)
    if isinstance(a, BaseModel) and kind is type(b):
        a, b = _fields(a), _fields(b)
    if isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        pairs: Iterable[tuple[Any, Any, Any]] = ((key, a[key], b[key]) for key in a)
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple) and len(a) == len(b):
        if a == b and _all_scalars(a, b):  # much the most of what is long, and compared without a look at each
            return None
        pairs = zip(range(len(a)), a, b, strict=True)
    else:
        return None if kind is type(b) and a == b else ("", a)
    for key, x, y in pairs:
        if (found := _difference(x, y)) is not None:
            return pointer(key) + found[0], found[1]
    return None
