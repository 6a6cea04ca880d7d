"""The items of a log: between their type and their JSON."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from keepstep.steps import json_text
from keepstep.steps.errors import BadState, LogDamaged, LogUnfit
from keepstep.steps.flaws import pointer

_PLAIN = frozenset({str, int, float, bool, type(None)})


class Read(NamedTuple):
    """Items as objects. written: their JSON, if they could be changed in place, so that it is noticed."""

    items: Sequence[Any]
    written: bytes | None


class Items:
    """The items of one type. kind: None takes and gives JSON as it is."""

    def __init__(self, kind: Any):
        self.kind = kind

    def read(self, text: str, log: str, at: int) -> Read:
        """The items of a stored list, of which the first is number `at` of the log. Raises LogUnfit, LogDamaged."""
        if self.kind is None:
            return Read(json_text.read(text), None)
        found = _tried(lambda: self._adapter.validate_json(text, by_name=True, by_alias=False))
        if isinstance(found, _Misfit):
            if found.place is None:
                raise LogDamaged(f"what holds items of {log} isn't what it was: {found.why}")
            path = found.path(log, at)
            raise LogUnfit(f"{path[1:]}, as it is stored, doesn't fit: {found.why}", path=path)
        return Read(found, None if _PLAIN.issuperset(map(type, found)) else self.write(found))

    def checked(self, given: list[Any], log: str, at: int) -> list[Any]:
        """Items that are to be appended, the first as number `at`. Raises BadState."""
        if self.kind is None:
            return given
        found = _tried(lambda: self._adapter.validate_python(given, by_name=True, by_alias=False))
        if isinstance(found, _Misfit):
            path = found.path(log, at)
            raise BadState(f"{path[1:]} can't be appended: {found.why}", path=path)
        return found

    def write(self, items: Sequence[Any]) -> bytes | None:
        """Their JSON; None if they can't be JSON."""
        try:
            return self._adapter.dump_json(list(items), by_alias=False, round_trip=True, warnings=False)
        except (PydanticSerializationError, ValueError):
            return None

    def changed(self, read: Read) -> int | None:
        """The index of the first item that has been changed since it was read."""
        if read.written is None or (now := self.write(read.items)) == read.written:
            return None
        before = json_text.read(read.written.decode())
        after = before[:0] if now is None else json_text.read(now.decode())
        return next((n for n, item in enumerate(before) if n >= len(after) or item != after[n]), 0)

    @property
    def _adapter(self) -> TypeAdapter[list[Any]]:
        return adapter(self.kind)


def adapter(kind: Any) -> TypeAdapter[list[Any]]:
    """What validates and writes lists of this type's values."""
    try:
        return _adapter(kind)
    except TypeError:  # an annotation that has no hash
        return TypeAdapter(list[kind])


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[kind])


def log_trouble(error: BaseException) -> LogDamaged | LogUnfit | None:
    """What kept a log from being read, if the error is that, was raised from it, or while it was handled."""
    seen: list[BaseException] = []
    cause: BaseException | None = error
    try:
        while cause is not None and not any(cause is one for one in seen):
            if isinstance(cause, LogDamaged | LogUnfit):
                return cause
            seen.append(cause)
            cause = cause.__cause__ or cause.__context__
    except Exception:  # noqa: BLE001  (a user's error may have attributes of its own, which may raise anything)
        return None
    return None


class _Misfit(NamedTuple):
    """place: the index of the first item that doesn't fit, and where in it; None if it is all of them."""

    place: tuple[int | str, ...] | None
    why: str

    def path(self, log: str, at: int) -> str:
        number, *below = self.place or (0,)
        return "".join(map(pointer, (log, at + int(number), *below)))


def _tried(make: Callable[[], list[Any]]) -> list[Any] | _Misfit:
    try:
        return make()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return _Misfit(first["loc"] or None, first["msg"])
    except Exception as error:  # noqa: BLE001  (a user's validator may raise anything)
        return _Misfit((0,), "its validation raised " + traceback.format_exception_only(error)[-1].strip())
