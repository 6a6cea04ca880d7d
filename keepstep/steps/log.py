"""A list that only grows: `messages: Log[Message] = Log()`. A step reads of it what it looks at, and nothing to append.

Its items come with the case only as long as they are few; see `keepstep.steps.chunks`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Generic, Self, SupportsIndex, TypeVar, get_args, get_origin, overload

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticSerializationError, core_schema

from keepstep.steps import chunks, json_text
from keepstep.steps.chunks import Fetch, Parts, Ref, nothing
from keepstep.steps.errors import BadOutcome, BadState, LogDamaged
from keepstep.steps.log_items import Items, Read, adapter

T = TypeVar("T")


class Log(Sequence[T], Generic[T]):
    """A sequence that is appended to. What it held before this step stays as it is, and is fetched when it is read.

    `append`, `extend`, `+=`, `+` and `len` read nothing; indexing, slices and iterating read what they give, `==` what
    it must. Items are validated when they are appended, and when they are read. It is a field of a state itself.
    """

    def __init__(self, items: Iterable[T] = ()):
        self._parts, self._new = Parts(), list(items)
        self._items, self._name = Items(None), "the log"
        self._fetch: Fetch = nothing
        self._nodes: dict[str, str] = {}
        self._read: dict[int, Read] = {}  # by the number of the first item
        self._tail: dict[int, Any] = {}  # of the open tail, what was read

    @classmethod
    def of(cls, stored: Any) -> Log[Any]:
        """What stands for a log in the JSON that an upcaster is given. Its items are JSON."""
        fetch = _fetching.get()
        if fetch is None and not isinstance(stored, list):
            raise BadState("Log.of() reads what an upcaster is given, while the upcaster runs")
        return Log[Any]._stored(chunks.parts_of(stored), None, fetch or nothing)

    # ------------------------------------------------------------------------------------------------------ growing
    def append(self, item: T) -> None:
        """Put an item behind the last. Raises BadState if it doesn't fit."""
        self.extend([item])

    def extend(self, items: Iterable[T]) -> None:
        """Put several behind the last; with BadState none of them."""
        self._new += self._items.checked(list(items), self._name, len(self))

    def __iadd__(self, items: Iterable[T]) -> Self:
        self.extend(items)
        return self

    def __add__(self, items: Iterable[T]) -> Log[T]:
        """Another log, with the items behind those of this one, which stays as it is. Nothing is read."""
        more = Log[T]._stored(self._parts, self._items.kind, self._fetch)
        more._read, more._tail, more._nodes = self._read, self._tail, self._nodes
        more._name, more._new = self._name, list(self._new)
        more.extend(items)
        return more

    # ------------------------------------------------------------------------------------------------------ reading
    def __len__(self) -> int:
        return self._parts.items + len(self._new)

    def __iter__(self) -> Iterator[T]:
        return self.from_number(0)

    def __reversed__(self) -> Iterator[T]:
        for end in range(len(self), 0, -chunks.FETCHED):
            yield from reversed(self[max(0, end - chunks.FETCHED) : end])

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | list[T]:
        if isinstance(index, slice):
            wanted = range(*index.indices(len(self)))
            if not wanted:
                return []
            begin, end = min(wanted[0], wanted[-1]), max(wanted[0], wanted[-1]) + 1
            return self._between(begin, end)[:: wanted.step]
        at = index.__index__()
        at += len(self) if at < 0 else 0
        if not 0 <= at < len(self):
            raise IndexError(f"{self._name} has {len(self):,} items, and none at {index}")
        return self._between(at, at + 1)[0]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Log):
            at = self.shared(other)
            return len(self) == len(other) and all(
                one == another for one, another in zip(self.from_number(at), other.from_number(at), strict=True)
            )
        return isinstance(other, list | tuple) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<Log of {len(self):,} items>"

    def __copy__(self) -> Log[T]:
        return self.__add__(())

    def __deepcopy__(self, memo: dict[int, Any]) -> Log[T]:
        other = self.__add__(())
        other._new = copy.deepcopy(self._new, memo)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return Log, (list(self),)

    def from_number(self, at: int) -> Iterator[T]:
        """The items from number `at` on, fetched as they are asked for."""
        places = self._places(at, self._parts.sealed)
        for first in range(0, len(places), chunks.FETCHED):
            some = places[first : first + chunks.FETCHED]
            self._load(some)
            for place, _ in some:
                yield from self._read[place].items[max(0, at - place) :]
        at = max(at, self._parts.sealed)
        while at < len(self):
            these = self._between(at, len(self))
            yield from these
            at += len(these)

    def named(self, name: str) -> None:
        """Be called so in what is said of it: as the field is."""
        self._name = name

    def shared(self, other: Log[Any]) -> int:
        """How many items at the beginning are known to be the same, because they are stored as the same."""
        a, b = self._parts, other._parts
        at = chunks.shared(a.refs, b.refs, self._node)
        same = min(len(a.tail), len(b.tail))
        if at == a.sealed == b.sealed and list(a.tail[:same]) == list(b.tail[:same]):
            at += same
        return at

    def known(self) -> Iterator[tuple[int, Any]]:
        """What need not be fetched, each behind its number: what was read, the open tail as JSON, what is new."""
        for at, read in self._read.items():
            yield from enumerate(read.items, at)
        yield from enumerate([*self._parts.tail, *self._new], self._parts.sealed)

    def refuse_changes(self) -> None:
        """Raise BadOutcome if an item that was there before has been changed in place: that would be lost."""
        for at, read in self._read.items():
            which = self._items.changed(read)
            if which is not None:
                raise BadOutcome(
                    f"{self._name}[{at + which}] was changed in place. What is in a Log stays as it is: append another "
                    "item, or return a new Log"
                )

    def _between(self, begin: int, end: int) -> list[T]:
        parts, sealed, found = self._parts, self._parts.sealed, list[T]()
        places = self._places(begin, min(end, sealed))
        self._load(places)
        for at, _ in places:
            found += self._read[at].items[max(0, begin - at) : end - at]
        found += self._open_items(range(max(begin, sealed), min(end, parts.items)))
        return found + self._new[max(0, begin - parts.items) : max(0, end - parts.items)]

    def _open_items(self, numbers: range) -> list[Any]:
        """Items of the tail; those that nobody asks for may not fit."""
        missing = [number for number in numbers if number not in self._tail]
        if missing:
            at, tail = (
                missing[0],
                self._parts.tail[missing[0] - self._parts.sealed : missing[-1] + 1 - self._parts.sealed],
            )
            self._read[at] = self._items.read(json_text.write(list(tail)), self._name, at)
            self._tail = {**dict(enumerate(self._read[at].items, at)), **self._tail}
        return [self._tail[number] for number in numbers]

    def _places(self, begin: int, end: int) -> Sequence[tuple[int, Ref]]:
        return chunks.chunks(self._parts.refs, self._node, begin, end)

    def _load(self, places: Sequence[tuple[int, Ref]]) -> None:
        missing = [(at, ref) for at, ref in places if at not in self._read]
        for first in range(0, len(missing), chunks.FETCHED):
            some = missing[first : first + chunks.FETCHED]
            stored = chunks.fetched([ref for _, ref in some], self._fetch)
            for at, ref in some:
                read = self._items.read(stored[ref.digest], self._name, at)
                if len(read.items) != ref.items:
                    raise LogDamaged(f"a chunk of {self._name} isn't what it was, sha256 {ref.digest[:12]}")
                self._read[at] = read

    def _node(self, digests: Collection[str]) -> Mapping[str, str]:
        """As `_fetch`, of what is read again and again."""
        unknown = set(digests) - self._nodes.keys()
        if unknown:
            self._nodes |= self._fetch(unknown)
        return self._nodes

    # ------------------------------------------------------------------------------------------------- as pydantic's
    @classmethod
    def _stored(cls, parts: Parts, kind: Any, fetch: Fetch, new: Sequence[Any] = ()) -> Log[T]:
        made = cls(new)
        made._parts, made._items, made._fetch = parts, Items(kind), fetch
        return made

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        [kind] = get_args(source) or (Any,)
        listed = handler.generate_schema(list[kind])  # type: ignore[valid-type]

        def validate(value: Any, inner: Callable[[Any], list[Any]], info: core_schema.ValidationInfo) -> Log[Any]:
            if isinstance(value, Log):
                if value._items.kind == kind:
                    return value
                return cls._stored(value._parts, kind, value._fetch, inner(value._new))
            if info.mode != "json":
                return cls._stored(Parts(), kind, nothing, inner(value))
            fetch = _fetching.get()
            if fetch is not None and (isinstance(value, list) or chunks.is_stored(value)):
                return cls._stored(chunks.parts_of(value), kind, fetch)
            # from its text, so that a strict model takes its dates
            made = adapter(kind).validate_json(json_text.strictly(value), by_name=True, by_alias=False)
            return cls._stored(Parts(), kind, nothing, made)

        def write(value: Any, inner: Callable[[Any], Any]) -> Any:
            if not isinstance(value, Log):
                return inner(value)
            if not _storing.get():
                return inner(list(value))
            return chunks.written(Parts(value._parts.refs, [*value._parts.tail, *inner(value._new)]))

        written = core_schema.wrap_serializer_function_ser_schema(write, schema=listed)
        return core_schema.with_info_wrap_validator_function(validate, listed, serialization=written)


# ------------------------------------------------------------------------------------------ a log and its surroundings
@lru_cache(maxsize=1024)
def logs_of(model: type[BaseModel]) -> tuple[str, ...]:
    """The names of the model's fields that are logs."""
    return tuple(name for name, info in model.model_fields.items() if is_log(info.annotation))


def is_log(kind: Any) -> bool:
    """Whether the annotation is that of a log."""
    bare = get_origin(kind) or kind
    return isinstance(bare, type) and issubclass(bare, Log)


_fetching: ContextVar[Fetch | None] = ContextVar("fetching", default=None)
_storing: ContextVar[bool] = ContextVar("storing", default=False)


def listed(value: Any) -> Any:
    """A log as a list, for pydantic's writer where one stands by itself; its own error for what else it can't write."""
    if isinstance(value, Log):
        return list(value)
    raise PydanticSerializationError(f"Unable to serialize unknown type: {type(value)}")


@contextmanager
def loading(fetch: Fetch | None) -> Iterator[None]:
    """JSON that is validated meanwhile is a stored state, and its logs are read by `fetch`."""
    token = _fetching.set(fetch)
    try:
        yield
    finally:
        _fetching.reset(token)


@contextmanager
def storing() -> Iterator[None]:
    """States become JSON as they are stored, with what stands for their logs; otherwise logs are lists."""
    token = _storing.set(True)
    try:
        yield
    finally:
        _storing.reset(token)
