"""Identities: the thread id's rules, the case id made from it, a step's idempotency key, a recorded call's digest."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

from pydantic import BaseModel, RootModel
from pydantic_core import to_jsonable_python

from keepstep.steps.errors import BadState, BadThreadId
from keepstep.steps.log import Log, listed

MAX_THREAD_ID = MAX_CALL_NAME = 255
"""Characters. Long enough for any business key, short enough for an index and a table on a screen."""

_CASES = UUID("7d0c2f5e-3b0a-5c64-9a51-6f1c0b9d4e11")


def check_thread_id(thread_id: str) -> str:
    """Return the thread id if it can be one; raise BadThreadId otherwise."""
    if not isinstance(thread_id, str):
        raise BadThreadId(f"a thread id is text, not {type(thread_id).__name__}: use str(...) of your business key")
    if not thread_id.strip():
        raise BadThreadId("the thread id is empty: give the business key, for instance an application number")
    if len(thread_id) > MAX_THREAD_ID:
        raise BadThreadId(
            f"the thread id has {len(thread_id)} characters, the most is {MAX_THREAD_ID}: {thread_id[:40]!r}..."
        )
    unstorable = why_unstorable(thread_id)
    if unstorable:
        raise BadThreadId(f"the thread id has {unstorable}: {thread_id!r}")
    return thread_id


def why_unstorable(text: str) -> str | None:
    """What in a text PostgreSQL can't store; None if it can."""
    if "\0" in text:
        return "a NUL character, which PostgreSQL can't store"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"a lone surrogate at position {error.start}, which is no Unicode text"
    return None


def case_id(workflow: str, thread_id: str) -> UUID:
    """The id of the case: a UUIDv5 of the length-prefixed pair, so that no two pairs share one."""
    return uuid5(_CASES, f"{len(workflow)}:{workflow}{len(thread_id)}:{thread_id}")


def idempotency_key(run: UUID, seq: int, step: str) -> UUID:
    """The key of a step's outside call: the same on every attempt, another after rewind, fork and restart.

    seq is the checkpoint from which the step runs; step is its name as stored in the head, so a rename with
    `aliases` keeps the key.
    """
    return uuid5(run, f"{seq}:{step}")


def once_key(run: UUID, seq: int, step: str, name: str) -> UUID:
    """The key of a recorded call inside of a step, of its own for each name; it stays as long as the step's does."""
    return uuid5(run, f"{seq}:{step}:{name}")


def branch_thread_id(parent: str, name: str, seq: int, number: int | None) -> str:
    """A branch's thread id, such as `APP-1042/check_reference#5[3]`: seq is the checkpoint that fanned out.

    Another one after each visit, as seq only grows. number: None where a name says which of the branches it is.
    """
    behind = f"/{name}#{seq}" + ("" if number is None else f"[{number}]")
    if len(parent) + len(behind) <= MAX_THREAD_ID:
        return parent + behind
    digest = sha256(f"{parent}{behind}".encode()).hexdigest()[:16]  # cut, it must still be its own
    return f"{(parent + behind)[: MAX_THREAD_ID - len(digest) - 1]}~{digest}"


def branch_run(run: UUID, seq: int, number: int) -> UUID:
    """The run of a branch, the root of its keys: the same, whoever makes its case; another one for each visit."""
    return uuid5(run, f"branch:{seq}:{number}")


def check_call_name(name: str) -> str:
    """Return the name of a recorded call if it can be one; raise ValueError otherwise."""
    if not isinstance(name, str):
        raise ValueError(f"the name of a recorded call is text, not a {type(name).__name__}")
    if not name.strip():
        raise ValueError("the name of a recorded call is empty: say what the call does")
    if len(name) > MAX_CALL_NAME:
        raise ValueError(f"the name of a recorded call has {len(name)} characters, the most is {MAX_CALL_NAME}")
    if unstorable := why_unstorable(name):
        raise ValueError(f"the name of a recorded call has {unstorable}: {name!r}")
    return name


# ------------------------------------------------------------------------------------- what a call was called with
def digest_of(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The sha256 of a call's arguments as canonical JSON, and behind it a short one of each, to say which differ.

    Raises BadState, with the argument, for what can't be JSON, and for iterators, which could be read only once.
    """
    positions = [_canonical(name, str(number), value) for number, value in enumerate(args)]
    names = {key: _canonical(name, key, value) for key, value in kwargs.items()}
    each = {**{str(number): text for number, text in enumerate(positions)}, **names}
    parts = {label: _sha256(text)[:8] for label, text in each.items()}
    return f"{_sha256(_compact([positions, names]))} {_compact(parts)}"


def same_arguments(before: str, now: str) -> bool:
    """Whether two digests are of the same arguments."""
    return before.partition(" ")[0] == now.partition(" ")[0]


def arguments_that_differ(before: str, now: str) -> list[str]:
    """Positions and names of the arguments in which two digests differ."""
    old, new = (json.loads(digest.partition(" ")[2] or "{}") for digest in (before, now))
    return [label for label in {**old, **new} if old.get(label) != new.get(label)]


def _canonical(name: str, label: str, value: Any) -> str:
    try:
        _refuse_iterators(value)
        plain = to_jsonable_python(value, by_alias=False, bytes_mode="base64", fallback=listed)
        return _compact(_in_order(value, plain))
    except (TypeError, ValueError, RecursionError) as error:  # pydantic's errors are ValueErrors
        which = f"argument {label}" if label.isdecimal() else f"the argument {label!r}"
        raise BadState(
            f"{which} of the call {name!r}, a {type(value).__name__}, can't be JSON, so a later attempt could not tell "
            f"whether it is the same: {str(error).splitlines()[0]}. Hand over plain values; what is no value, such as "
            "a client or a session, the function can bring with it (functools.partial, a lambda).",
            path=f"/{label}",
        ) from None


def _refuse_iterators(value: Any) -> None:
    """A generator or an open file would be used up by looking at it."""
    if isinstance(value, Iterator):
        raise TypeError(f"a {type(value).__name__} can be read only once")
    for _, item in _inside(value):
        _refuse_iterators(item)


def _in_order(value: Any, plain: Any) -> Any:
    """Its JSON with sets in an order that is the same in every process."""
    if isinstance(value, RootModel):
        value = value.root
    if isinstance(value, Set):
        return sorted((_in_order(*pair) for pair in zip(value, plain, strict=True)), key=_compact)
    if isinstance(plain, dict):
        below = {str(key): item for key, item in _inside(value)}
        return {key: _in_order(below.get(key), item) for key, item in plain.items()}
    if isinstance(plain, list) and isinstance(value, list | tuple | Log) and len(value) == len(plain):
        return [_in_order(*pair) for pair in zip(value, plain, strict=True)]
    return plain


def _inside(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, BaseModel):
        return [(key, getattr(value, key, None)) for key in type(value).model_fields]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    return enumerate(value) if isinstance(value, list | tuple | Set | Log) else ()


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False, sort_keys=True, separators=(",", ":"))


def _sha256(text: str) -> str:
    return sha256(text.encode("ascii")).hexdigest()
