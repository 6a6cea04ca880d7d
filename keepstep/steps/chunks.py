"""How a log is stored: sealed chunks of items by their digest, and a tail that is still open.

A short log is a plain list. A longer one is {"$keepstep.log": {"refs": [[digest, items, level], ...], "tail": [...]}}:
chunks (level 0) hold items, and of each sixteen refs of one level a node of the next is made, which is stored as the
chunks are, and names them. So a state names few of them, however many there are, and appending reads none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from keepstep.steps import json_text
from keepstep.steps.errors import LogDamaged

MARK, NODE = "$keepstep.log", "$keepstep.refs"
SEAL = 4 * 1024
"""Bytes of JSON from which on the tail is sealed: until then every step that is run loads it."""
MANY = 256
"""Items from which on it is, however small they are: each of them costs every step a moment."""
CHUNK = 64 * 1024
"""Bytes of JSON that a chunk has at the most, unless a single item has more."""
WIDTH = 16
"""Refs of one level that become one of the next."""
FETCHED = 64
"""Chunks that are fetched at a time."""

Fetch = Callable[[Collection[str]], Mapping[str, str]]
"""Digests -> the stored values' JSON, of those that are there."""


def nothing(_digests: Collection[str]) -> Mapping[str, str]:
    """Fetches for what has no chunks."""
    return {}


class Ref(NamedTuple):
    """level: 0 for a chunk; else of a node, whose refs are of the level below. items: how many are below it."""

    digest: str
    items: int
    level: int


@dataclass(frozen=True)
class Parts:
    """A log as it is stored. tail: items as JSON, behind those that the refs lead to."""

    refs: tuple[Ref, ...] = ()
    tail: Sequence[Any] = ()

    @property
    def sealed(self) -> int:
        """How many items are in chunks."""
        return sum(ref.items for ref in self.refs)

    @property
    def items(self) -> int:
        """How many there are."""
        return self.sealed + len(self.tail)


def is_stored(value: Any) -> bool:
    """Whether a JSON value is a log that has chunks."""
    return isinstance(value, dict) and value.keys() == {MARK}


def parts_of(value: Any) -> Parts:
    """The parts of a stored log, or of a list; LogDamaged if it is neither."""
    if isinstance(value, list):
        return Parts((), value)
    try:
        inside = value[MARK]
        refs = tuple(Ref(str(digest), int(items), int(level)) for digest, items, level in inside["refs"])
        if is_stored(value) and isinstance(inside["tail"], list):
            return Parts(refs, inside["tail"])
    except (KeyError, TypeError, ValueError):
        pass
    raise LogDamaged(f"a {type(value).__name__} stands where a log is stored, and is none")


def written(parts: Parts) -> Any:
    """The parts as JSON."""
    if not parts.refs:
        return list(parts.tail)
    return {MARK: {"refs": [list(ref) for ref in parts.refs], "tail": list(parts.tail)}}


# ---------------------------------------------------------------------------------------------------------- sealing
def seal(parts: Parts) -> tuple[Parts, dict[str, str]]:
    """The parts with the tail in chunks if it has become long, and the JSON by digest of what is to be stored."""
    punctuation = len(parts.tail) + 1
    if len(parts.tail) < MANY and len(json_text.write(parts.tail).encode()) - punctuation < SEAL:
        return parts, {}
    texts = [json_text.write(item) for item in parts.tail]
    blobs: dict[str, str] = {}
    refs = list(parts.refs)
    for some in _cut(texts):
        refs.append(Ref(_keep(f"[{','.join(some)}]", blobs), len(some), 0))
        _gather(refs, blobs)
    return Parts(tuple(refs)), blobs


def _cut(texts: Sequence[str]) -> Iterator[list[str]]:
    some: list[str] = []
    size = 0
    for text in texts:
        more = len(text.encode()) + 1  # a bracket or a comma
        if some and size + more >= CHUNK:
            yield some
            some, size = [], 0
        some.append(text)
        size += more
    yield some


def _gather(refs: list[Ref], blobs: dict[str, str]) -> None:
    while len(refs) >= WIDTH and all(ref.level == refs[-1].level for ref in refs[-WIDTH:]):
        some = refs[-WIDTH:]
        digest = _keep(json_text.write({NODE: [list(ref) for ref in some]}), blobs)
        refs[-WIDTH:] = [Ref(digest, sum(ref.items for ref in some), some[0].level + 1)]


def _keep(text: str, blobs: dict[str, str]) -> str:
    digest = hashlib.sha256(text.encode()).hexdigest()
    blobs[digest] = text
    return digest


# ---------------------------------------------------------------------------------------------------------- reading
def chunks(refs: Sequence[Ref], fetch: Fetch, begin: int, end: int) -> list[tuple[int, Ref]]:
    """The chunks that hold the items from `begin` up to `end`, each behind the number of its first item."""
    found = list(_placed(refs, 0, begin, end))
    while nodes := [ref for _, ref in found if ref.level]:
        stored = fetched(nodes, fetch)
        found = [
            one
            for at, ref in found
            for one in (_placed(_below(ref, stored), at, begin, end) if ref.level else [(at, ref)])
        ]
    return found


def fetched(refs: Sequence[Ref], fetch: Fetch) -> Mapping[str, str]:
    """Their JSON by digest; LogDamaged if one is missing."""
    wanted = {ref.digest for ref in refs}
    stored = fetch(wanted)
    missing = sorted(wanted - stored.keys())
    if missing:
        which = ", ".join(digest[:12] for digest in missing[:5])
        raise LogDamaged(f"{len(missing)} parts of a log are missing, sha256 {which}")
    return stored


def items(parts: Parts, fetch: Fetch, begin: int = 0) -> list[Any]:
    """The items from `begin` on, as JSON. LogDamaged if anything is missing."""
    sealed, found = parts.sealed, []
    places = chunks(parts.refs, fetch, begin, sealed)
    for first in range(0, len(places), FETCHED):
        some = places[first : first + FETCHED]
        stored = fetched([ref for _, ref in some], fetch)
        for at, ref in some:
            found += _chunk(ref, stored[ref.digest])[max(0, begin - at) :]
    return [*found, *parts.tail[max(0, begin - sealed) :]]


def expanded(state: Mapping[str, Any], fetch: Fetch, last: int | None = None) -> dict[str, Any]:
    """A state as JSON with lists for its logs. last: only so many items of each, behind a text that counts the others.

    Raises LogDamaged.
    """
    return {name: _listed(value, fetch, last) if is_stored(value) else value for name, value in state.items()}


def shared(a: Sequence[Ref], b: Sequence[Ref], fetch: Fetch) -> int:
    """How many items at the beginning are the same because they are in the same chunks. Reads nodes, but no chunk."""
    left, right, count = list(a), list(b), 0
    while left and right:
        one, other = left[0], right[0]
        if one == other:
            count += one.items
            del left[0], right[0]
        elif one.level == other.level == 0:
            break
        else:
            for refs, ref in ((left, one), (right, other)):
                if ref.level == max(one.level, other.level):
                    refs[:1] = _below(ref, fetched([ref], fetch))
    return count


def reachable(refs: Sequence[Ref], fetch: Fetch) -> set[str]:
    """The digests of all chunks and nodes that these lead to."""
    found, todo = {ref.digest for ref in refs}, [ref for ref in refs if ref.level]
    while todo:
        stored = fetched(todo, fetch)
        below = [one for ref in todo for one in _below(ref, stored)]
        found |= {ref.digest for ref in below}
        todo = [ref for ref in below if ref.level]
    return found


def _listed(value: Any, fetch: Fetch, last: int | None) -> list[Any]:
    parts = parts_of(value)
    before = 0 if last is None else max(0, parts.items - last)
    found = items(parts, fetch, before)
    return [f"… {before:,} items before", *found] if before else found


def _placed(refs: Sequence[Ref], at: int, begin: int, end: int) -> Iterator[tuple[int, Ref]]:
    for ref in refs:
        if at < end and at + ref.items > begin:
            yield at, ref
        at += ref.items


def _below(ref: Ref, stored: Mapping[str, str]) -> list[Ref]:
    try:
        below = [Ref(str(d), int(items), int(level)) for d, items, level in json_text.read(stored[ref.digest])[NODE]]
    except (KeyError, TypeError, ValueError):
        below = []
    if sum(one.items for one in below) != ref.items or any(one.level != ref.level - 1 for one in below):
        raise LogDamaged(f"a part of a log isn't what it was, sha256 {ref.digest[:12]}")
    return below


def _chunk(ref: Ref, text: str) -> list[Any]:
    try:
        found = json_text.read(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != ref.items:
        raise LogDamaged(f"a chunk of a log isn't what it was, sha256 {ref.digest[:12]}")
    return found
