"""What a step changed, as RFC 6902 JSON Patch operations: add, remove, replace; appended list items as appends.

https://www.rfc-editor.org/rfc/rfc6902 and, for the paths, https://www.rfc-editor.org/rfc/rfc6901
"""

from __future__ import annotations

import copy
import json
import re
from functools import lru_cache
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from keepstep.steps.errors import CheckpointDamaged
from keepstep.steps.flaws import pointer

Operation = dict[str, Any]

_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_PATH = re.compile(r"(/([^~/]|~[01])*)*")

_PLAIN = frozenset({str, int, bool, type(None)})
"""Of what is equal and of one of these types, the JSON is the same; of floats it is not: 0.0 and -0.0."""

DELTA_OVERHEAD = 800
"""Bytes that a delta weighs besides its own: applying many small ones is what makes loading slow."""


def diff(before: Any, after: Any, path: str = "") -> list[Operation]:
    """The operations that turn `before` into `after`; none if they are the same JSON.

    Below the root, many operations on one value give way to one that replaces it, if that is shorter.
    """
    if _same(before, after):
        return []
    operations: list[Operation] = []
    if isinstance(before, dict) and isinstance(after, dict):
        operations = _diff_objects(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        operations = _diff_lists(before, after, path)
    whole: list[Operation] = [{"op": "replace", "path": path, "value": after}]
    if len(operations) > 1 and path and len(json.dumps(operations)) > len(json.dumps(whole)):
        return whole
    return operations or whole


def apply(state: Any, operations: list[Operation]) -> Any:
    """The state after the operations. The state given may be changed; CheckpointDamaged if one doesn't fit."""
    if not isinstance(operations, list):
        raise CheckpointDamaged(f"the stored change {_short(operations)} is no list of operations")
    for operation in operations:
        try:
            state = _apply_one(state, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            path = operation.get("path") if isinstance(operation, dict) else None
            raise CheckpointDamaged(
                f"the stored change {_short(operation)} doesn't apply: {error!r}", path=str(path or "")
            ) from None
    return state


def _diff_objects(before: dict[str, Any], after: dict[str, Any], path: str) -> list[Operation]:
    operations: list[Operation] = [{"op": "remove", "path": path + pointer(k)} for k in before if k not in after]
    for key, value in after.items():
        if key in before:
            operations += diff(before[key], value, path + pointer(key))
        else:
            operations.append({"op": "add", "path": path + pointer(key), "value": value})
    return operations


def _diff_lists(before: list[Any], after: list[Any], path: str) -> list[Operation]:
    kept = min(len(before), len(after))
    if _same(before[:kept], after[:kept]):
        appended = [{"op": "add", "path": f"{path}/-", "value": item} for item in after[kept:]]
        removed = [{"op": "remove", "path": f"{path}/{i}"} for i in range(len(before) - 1, kept - 1, -1)]
        return appended or removed
    if len(before) != len(after):
        return [{"op": "replace", "path": path, "value": after}]
    return [op for i, (x, y) in enumerate(zip(before, after, strict=True)) for op in diff(x, y, f"{path}/{i}")]


def _apply_one(state: Any, operation: Operation) -> Any:
    kind, path = operation["op"], operation["path"]
    if kind not in ("add", "remove", "replace"):
        raise ValueError(f"unknown operation {kind!r}")
    parents, last = _parts(path)
    if path == "":
        if kind == "remove":
            raise ValueError("the root can't be removed")
        return _own(operation["value"])
    place = state
    for part in parents:
        place = place[_index(part)] if isinstance(place, list) else place[part]
    if isinstance(place, list):
        _apply_to_list(place, kind, last, operation)
    elif kind == "add":
        place[last] = _own(operation["value"])
    elif kind == "replace":
        place[last]
        place[last] = _own(operation["value"])
    else:
        del place[last]
    return state


@lru_cache(maxsize=4096)
def _parts(path: str) -> tuple[tuple[str, ...], str]:
    """What a path leads through, and its last part; the root's is empty. Cases take the same paths again and again."""
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no JSON pointer")
    *parents, last = ["", *(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])]
    return tuple(parents[1:]), last


def _own(value: Any) -> Any:
    """The value, with nothing in it that belongs to the operation."""
    return copy.deepcopy(value) if isinstance(value, dict | list) else value


def _apply_to_list(place: list[Any], kind: str, last: str, operation: Operation) -> None:
    if kind == "add" and last == "-":
        place.append(_own(operation["value"]))
        return
    index = _index(last)
    if index >= len(place) + (kind == "add"):
        raise IndexError(last)
    if kind == "add":
        place.insert(index, _own(operation["value"]))
    elif kind == "replace":
        place[index] = _own(operation["value"])
    else:
        del place[index]


def _index(part: str) -> int:
    """A list's index as RFC 6901 writes it; Python's int() takes much more, negative ones included."""
    if not _INDEX.fullmatch(part):
        raise ValueError(f"{part!r} is no index")
    return int(part)


def _same(a: Any, b: Any) -> bool:
    """Equal as JSON, in which 1, 1.0 and true are three values (in Python they are equal)."""
    if a is b or (type(a) is str and type(b) is str):
        return bool(a == b)
    if a != b:
        return False
    if type(a) is list and _PLAIN.issuperset(kinds := list(map(type, a))):
        return kinds == list(map(type, b))
    try:
        if to_json(a) == to_json(b):
            return True
    except PydanticSerializationError:  # nested too deeply for it
        pass
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _short(operation: object) -> str:
    text = repr(operation)
    return text if len(text) < 120 else text[:117] + "..."
