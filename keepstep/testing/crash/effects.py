"""The effects that cases made outside, as the user counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Counted = Mapping[str, Iterable[Any]] | Iterable[tuple[str, Any]]
Effects = Callable[[], Counted]
"""Counts all effects so far: pairs of thread id and key, or keys by thread id. An effect without a key has None."""


def count(effects: Effects) -> dict[str, Counter[str | None]]:
    """How often an effect was made under each key, by thread id."""
    counted = effects()
    if isinstance(counted, Mapping):
        pairs = [(thread_id, key) for thread_id, keys in counted.items() for key in _each(keys)]
    else:
        pairs = list(counted)
    found: dict[str, Counter[str | None]] = {}
    for thread_id, key in pairs:
        found.setdefault(thread_id, Counter())[None if key is None else str(key)] += 1
    return found


def made(keys: Counter[str | None]) -> int:
    """How many effects there were: one a key, however often it was sent; and each one without a key."""
    return sum(1 for key in keys if key is not None) + keys[None]


def _each(keys: Iterable[Any]) -> Iterable[Any]:
    return keys.elements() if isinstance(keys, Counter) else keys
