"""Whether two JSON values are the same, as whoever sent them means it."""

from __future__ import annotations

from typing import Any


def same(a: Any, b: Any) -> bool:
    """Whether they are equal as JSON, however deep: 1 is 1.0, a tuple is a list, but True is not 1."""
    pairs = [(a, b)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs += [(a[key], b[key]) for key in a]
        elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
            if len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        elif isinstance(a, bool) != isinstance(b, bool) or a != b:
            return False
    return True
