"""Whether two JSON values are the same, as whoever sent them means it."""

from __future__ import annotations

from typing import Any


def same(a: Any, b: Any) -> bool:
    """Whether they are equal as JSON: 1 is 1.0, a tuple is a list, but True is not 1."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(*pair) for pair in zip(a, b, strict=True))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)
