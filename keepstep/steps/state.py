"""The state of a case between its model and its JSON.

A step gets a copy of its own. What it changed in place and what it returned are merged, validated by the model, and
must survive the round trip through JSON; what doesn't is refused with the path of the field.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from keepstep.steps import chunks, json_text
from keepstep.steps.chunks import Fetch
from keepstep.steps.errors import BadOutcome, BadState
from keepstep.steps.flaws import UNSERIALISABLE, children, fields_of, unfit, unserialisable
from keepstep.steps.flaws import pointer as pointer
from keepstep.steps.log import Log, loading, logs_of, storing

JSON = dict[str, Any]
"""A state as plain JSON values: the keys are field names."""

_SCALARS = frozenset({str, int, float, bool, type(None)})


def load(
    model: type[BaseModel], stored: Mapping[str, Any], text: str | None = None, fetch: Fetch | None = None
) -> BaseModel:
    """Make the model from stored JSON; BadState names the first field that doesn't fit. text: its JSON, if it is known.

    Validated as JSON, not as Python values: so a strict model takes its dates and tuples back. fetch: of a case's own
    stored state, what reads its logs; what comes from elsewhere has lists for them.
    """
    return _from_json(model, stored, text or text_of(stored, model.__name__), fetch)


def text_of(stored: Mapping[str, Any], name: str = "") -> str:
    """The text of a JSON value as it is stored: compact, in Unicode. BadState names what can't be JSON."""
    return _encode_plain(stored, name)


class Stored(NamedTuple):
    """A state as JSON, and its text as it is stored. blobs: by digest, what of its logs is to be stored before it."""

    state: JSON
    text: str
    blobs: Mapping[str, str] = MappingProxyType({})


def dump(state: BaseModel) -> JSON:
    """Make JSON from a valid state, with lists for its logs, and prove that it comes back as it was."""
    return store(state).state


def store(state: BaseModel, fetch: Fetch | None = None) -> Stored:
    """The same, with the text. fetch: of a case's own state, so what is stored of its logs isn't read."""
    model = type(state)
    if fetch is None:
        read_logs(state)  # here, since pydantic would say less of what is missing
    for _, log in _logs(state):
        log.refuse_changes()
    try:
        with nullcontext() if fetch is None else storing():
            # round_trip: what can be loaded again, so no computed fields
            stored: Any = state.model_dump(mode="json", by_alias=False, round_trip=True, warnings=False)
    except UNSERIALISABLE as error:
        path = unserialisable(state)
        raise BadState(f"{model.__name__}{path} can't be JSON: {str(error).splitlines()[0]}", path=path) from None
    if not isinstance(stored, dict):
        raise BadState(f"{model.__name__} becomes a {type(stored).__name__} in JSON, and not an object with its fields")
    for name, value in stored.items():
        if chunks.is_stored(value) and not isinstance(getattr(state, name, None), Log):
            path = pointer(name)
            raise BadState(f"{model.__name__}{path} looks like a log: {chunks.MARK!r} is keepstep's own", path=path)
    text = _encode_plain(stored, model.__name__)
    back = _from_json(model, stored, text, fetch)
    lost = _difference(state, back)
    if lost is not None:
        path, value = lost
        _, reason = unfit(value) or ("", f"a {type(value).__name__} doesn't come back as it was")
        raise BadState(
            f"{model.__name__}{path} doesn't survive the round trip through JSON: {reason}. Give the field a type that "
            "pydantic can restore, or keep a reference",
            path=path,
        )
    return Stored(stored, text)


def read_logs(state: BaseModel) -> None:
    """Read all that its logs hold. Raises LogDamaged, LogUnfit."""
    for _, log in _logs(state):
        list(log)


def sealed(model: type[BaseModel], stored: Stored) -> Stored:
    """The same, with what has become long of its logs in chunks."""
    state, blobs = dict(stored.state), dict(stored.blobs)
    for name in logs_of(model):
        if name in state:
            parts, more = chunks.seal(chunks.parts_of(state[name]))
            if more:
                state[name] = chunks.written(parts)
                blobs |= more
    return Stored(state, _encode_plain(state, model.__name__), blobs) if blobs else stored


def merge(
    model: type[BaseModel], before: JSON, copy: BaseModel, update: Mapping[str, Any], fetch: Fetch | None = None
) -> JSON:
    """The new state, see `merged`."""
    return merged(model, before, copy, update, fetch).state


def merged(
    model: type[BaseModel], before: JSON, copy: BaseModel, update: Mapping[str, Any], fetch: Fetch | None = None
) -> Stored:
    """The new state: `before`, with what the step changed in its copy and with what it returned.

    Raises BadOutcome if one field was changed both ways, BadState if the result doesn't fit the model or JSON. fetch:
    see `store`.
    """
    fields = model.model_fields
    if model.model_config.get("extra") != "allow":
        for name in update:
            if name not in fields:
                raise BadState(
                    f"{model.__name__} has no field {name!r}; it has {', '.join(fields)}", path=pointer(name)
                )
    changed = fields_of(copy)
    if update and not _untouched(before, copy, update):
        _refuse_changed_both_ways(before, fields_of(load(model, before, None, fetch)), changed, update)
    whole = {**changed, **update}
    made = _made(model, whole, lambda: model.model_validate(whole, by_name=True, by_alias=False))
    return store(made, fetch)


def changes(model: type[BaseModel], returned: BaseModel) -> dict[str, Any]:
    """A whole state that a step returned, as an update of every field."""
    if not isinstance(returned, model):
        raise BadOutcome(f"the step returned a {type(returned).__name__}, its state is a {model.__name__}")
    return fields_of(returned)


def refuse_what_json_lacks(value: Any, name: str = "") -> None:
    """Raise BadState for NaN, an infinity, a lone surrogate, a key or value that is no JSON at all, with its path."""
    if (found := unfit(value)) is not None:
        path, reason = found
        raise BadState(f"{name}{path or '/'} can't be JSON: {reason}", path=path)
    _encode(value, name)


def _untouched(before: JSON, copy: BaseModel, names: Iterable[str]) -> bool:
    """Whether these fields of the copy are still written as they were: quick to say, without making the model again."""
    try:
        with storing():
            written = copy.model_dump(mode="json", include=set(names), by_alias=False, round_trip=True, warnings=False)
    except UNSERIALISABLE:
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
        path, reason = unfit(value) or ("", str(error))
        raise BadState(f"{name}{path or '/'} can't be JSON: {reason}", path=path) from None


def _encode_plain(value: Any, name: str) -> str:
    """The same, quicker, of what has JSON's types already: only numbers that are none are still looked for."""
    try:
        return json_text.write(value)
    except (*UNSERIALISABLE, TypeError):
        return _encode(value, name)  # which says where


def _from_json(model: type[BaseModel], stored: Mapping[str, Any], text: str, fetch: Fetch | None = None) -> BaseModel:
    with nullcontext() if fetch is None else loading(fetch):
        return _made(model, stored, lambda: model.model_validate_json(text, by_name=True, by_alias=False))


def _made(model: type[BaseModel], given: Mapping[str, Any], make: Callable[[], BaseModel]) -> BaseModel:
    try:
        made = make()
    except ValidationError as error:
        raise _refused(model, given, error) from None
    except Exception as error:  # a user's validator may raise anything
        raised = traceback.format_exception_only(error)[-1].strip()
        raise BadState(f"{model.__name__}: its validation raised {raised}") from error
    for name, log in _logs(made):
        log.named(name)
    return made


def _logs(state: BaseModel) -> Iterator[tuple[str, Log[Any]]]:
    return ((name, log) for name in logs_of(type(state)) if isinstance(log := getattr(state, name), Log))


def _refused(model: type[BaseModel], given: Mapping[str, Any], error: ValidationError) -> BadState:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid" and (found := unfit(given)) is not None:  # such as a number with 5,000 digits
        return BadState(f"{model.__name__}{found[0] or '/'} can't be JSON: {found[1]}", path=found[0])
    path = _path(first["loc"], given, is_missing=first["type"] == "missing")
    more = f" ({error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return BadState(f"{model.__name__}{path}: {first['msg']}{more}", path=path)


def _path(location: tuple[int | str, ...], value: Any, *, is_missing: bool) -> str:
    """Pydantic's location as a JSON pointer: the tags of unions in it are no part of the JSON."""
    path = ""
    for part in location:
        below = {str(key): item for key, item in children(value)}
        if str(part) in below:
            path, value = path + pointer(part), below[str(part)]
    return path + pointer(location[-1]) if is_missing else path


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
        a, b = fields_of(a), fields_of(b)
    if isinstance(a, Log) and isinstance(b, Log):
        at = a.shared(b)
        if len(a) != len(b):
            return "", a
        pairs: Iterable[tuple[Any, Any, Any]] = zip(count(at), a.from_number(at), b.from_number(at), strict=False)
    elif isinstance(a, Mapping) and isinstance(b, Mapping) and a.keys() == b.keys():
        pairs = ((key, a[key], b[key]) for key in a)
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
