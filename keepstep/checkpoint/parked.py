"""Large values apart: a checkpoint names them by digest, and each is stored once for a case, whoever holds it.

In a checkpoint's payload, {"$blob": DIGEST} stands for a value that is stored in `blobs`. Of nested values that are
large the innermost go, so no stored value has another one in it. What is small stays where it is, and costs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from keepstep.checkpoint import codec
from keepstep.steps.chunks import Fetch
from keepstep.steps.errors import CheckpointDamaged

MARK = "$blob"
QUOTED = f'"{MARK}"'
LARGE = 64 * 1024
"""Bytes of JSON from which on a value is stored apart, unless the settings say otherwise."""


def park(payload: str, value: Any, large: int = LARGE) -> tuple[str, dict[str, str]]:
    """The payload with references for its large values, and these values' JSON by digest.

    payload: the JSON of `value`, a whole state or a list of operations. large: bytes. What only looks like a
    reference is stored apart too, whatever its size, so that it isn't taken for one.
    """
    if len(payload) * 4 < large and QUOTED not in payload:  # at the most four bytes a character
        return payload, {}
    blobs: dict[str, str] = {}
    if isinstance(value, list):
        parked: Any = [{**one, "value": _park(one["value"], large, blobs)} if "value" in one else one for one in value]
    elif MARK in value:
        parked = _park(value, large, blobs)
    else:  # never the whole state, only what is in it
        parked = {key: _park(item, large, blobs) for key, item in value.items()}
    return (codec.encode(parked), blobs) if blobs else (payload, {})


def resolve(chain: str | None, fetch: Fetch, seen: set[str] | None = None) -> Any:
    """The value of stored JSON, with its large values; CheckpointDamaged if one is missing.

    seen: takes the digests that were fetched. Without references, nothing is fetched.
    """
    if not chain:
        return []
    value = codec.decode(chain)
    if QUOTED not in chain:
        return value
    wanted: set[str] = set()
    _find(value, wanted)
    if not wanted:
        return value  # somebody's text
    stored = fetch(wanted)
    missing = wanted - stored.keys()
    if missing:
        which = ", ".join(digest[:12] for digest in sorted(missing)[:5])
        raise CheckpointDamaged(f"{len(missing)} large values of the state are missing, sha256 {which}")
    if seen is not None:
        seen |= wanted
    return _put(value, stored)


def _park(value: Any, large: int, blobs: dict[str, str]) -> Any:
    if isinstance(value, dict):
        if MARK in value:
            return _reference(codec.encode(value), blobs)
        inside = {key: _park(item, large, blobs) for key, item in value.items()}
        if any(inside[key] is not item for key, item in value.items()):
            return inside  # what is large in it has gone
    elif isinstance(value, list):
        items = [_park(item, large, blobs) for item in value]
        if any(new is not item for new, item in zip(items, value, strict=True)):
            return items
    elif not isinstance(value, str) or len(value) * 4 < large:
        return value
    text = codec.encode(value)
    return _reference(text, blobs) if len(text.encode()) >= large else value


def _reference(text: str, blobs: dict[str, str]) -> dict[str, str]:
    digest = hashlib.sha256(text.encode()).hexdigest()
    blobs[digest] = text
    return {MARK: digest}


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {MARK}


def _find(value: Any, wanted: set[str]) -> None:
    if _is_reference(value):
        wanted.add(str(value[MARK]))
        return
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(item, dict | list):
            _find(item, wanted)


def _put(value: Any, stored: Mapping[str, str]) -> Any:
    if _is_reference(value):
        return codec.decode(stored[value[MARK]])
    if isinstance(value, dict):
        return {key: _put(item, stored) for key, item in value.items()}
    return [_put(item, stored) for item in value] if isinstance(value, list) else value
