"""Secret fields of a state: stored as they are, never shown. `token: Annotated[str, Secret]` marks one.

Whoever prints a state hides these fields; whoever prints anybody's words (errors, log lines) takes their values out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, SecretBytes, SecretStr

from keepstep.steps.chunks import MARK
from keepstep.steps.flaws import pointer
from keepstep.steps.log import Log, is_log

HIDDEN = "***"
OPEN_ITEMS = f"/{MARK}/tail"
"""Where in what stands for a log some of its items are."""
CUT = 4000
"""Characters from which on a text may have been cut off, in the middle of a value."""
SHORT = 4
"""A value of fewer characters is only taken out of a text where it stands alone, as a PIN does: "7" is everywhere."""


class Secret:
    """Marks a field: `token: Annotated[str, Secret]`.

    Pydantic's own SecretStr and SecretBytes are secret by themselves; they need a serializer that says their value, or
    they could not be stored.
    """


# ------------------------------------------------------------------------------------------------- where secrets are
@lru_cache(maxsize=256)
def secrets_of(model: type[BaseModel]) -> tuple[str, ...]:
    """JSON pointers of the model's secret fields; `*` stands for any key or index."""
    found: list[str] = []
    again: list[str] = []  # where a model holds itself: hidden as a whole, if there is a secret anywhere
    for name, info in model.model_fields.items():
        for secret, path in _below(info.annotation, info.metadata, pointer(name), (model,)):
            (found if secret else again).append(path)
    return tuple(dict.fromkeys([*found, *(again if found else ())]))


def _below(kind: Any, metadata: Iterable[Any], path: str, above: tuple[type, ...]) -> Iterator[tuple[bool, str]]:
    """(True, path) of each secret; (False, path) where a model comes again."""
    if any(mark is Secret or isinstance(mark, Secret) for mark in metadata):
        yield True, path
        if is_log(kind):
            yield True, path + OPEN_ITEMS
        return
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _below(args[0], args[1:], path, above)
    elif isinstance(kind, type) and issubclass(kind, SecretStr | SecretBytes):
        yield True, path
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        if kind in above:
            yield False, path
            return
        for name, info in kind.model_fields.items():
            yield from _below(info.annotation, info.metadata, path + pointer(name), (*above, kind))
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield from _below(args[1], (), f"{path}/*", above)
    elif is_log(kind):
        for arg in args:
            yield from _below(arg, (), f"{path}/*", above)
            yield from _below(arg, (), f"{path}{OPEN_ITEMS}/*", above)
    elif isinstance(origin, type) and issubclass(origin, Iterable):
        for arg in args:
            yield from _below(arg, (), f"{path}/*", above)
    else:  # a union, or nothing with an inside
        for arg in args:
            yield from _below(arg, (), path, above)


# --------------------------------------------------------------------------------------------- a state without them
def hide(value: Any, secrets: Iterable[str], at: str = "") -> Any:
    """The JSON value that stands at the pointer `at` of a state, with *** for what is secret. It isn't changed."""
    return _hide(value, _rest(secrets, at))


def hide_operations(operations: Any, secrets: Sequence[str]) -> Any:
    """RFC 6902 operations on a state, with *** for what is secret in their values."""
    if not isinstance(operations, list):
        return operations
    return [
        {**one, "value": hide(one["value"], secrets, one.get("path", ""))} if isinstance(one, dict) and "value" in one
        else one
        for one in operations
    ]  # fmt: skip


def _rest(secrets: Iterable[str], at: str) -> list[list[str]]:
    """What of the secrets' paths is left below the pointer `at`."""
    parts = at.split("/")[1:]
    return [rest for one in secrets if (rest := _after(one.split("/")[1:], parts)) is not None]


def _after(secret: list[str], at: list[str]) -> list[str] | None:
    """What of the secret's path is left below `at`; [] if `at` is inside of it, None if they part."""
    for known, part in zip(secret, at, strict=False):
        if known not in ("*", part):
            return None
    return secret[len(at) :]


def _hide(value: Any, paths: list[list[str]]) -> Any:
    if not paths or value is None:
        return value
    if [] in paths:
        return HIDDEN
    if isinstance(value, dict):
        return {key: _hide(item, _into(paths, pointer(key)[1:])) for key, item in value.items()}
    if isinstance(value, list):
        return [_hide(item, _into(paths, str(number))) for number, item in enumerate(value)]
    return value


def _into(paths: list[list[str]], part: str) -> list[list[str]]:
    return [path[1:] for path in paths if path[0] in ("*", part)]


# ------------------------------------------------------------------------------------------------ texts without them
def logs_with(secrets: Iterable[str]) -> list[str]:
    """JSON pointers of the logs that have secrets."""
    return list(dict.fromkeys(one.partition(OPEN_ITEMS)[0] for one in secrets if OPEN_ITEMS in one))


@dataclass(frozen=True)
class Cover:
    """Takes the secret values of some states out of texts."""

    pattern: re.Pattern[str] | None
    values: tuple[str, ...]

    @classmethod
    def of(cls, secrets: Sequence[str], *states: Any) -> Cover:
        """states: JSON, or models as a step may have left them."""
        return cls.gather(secrets, (("", state) for state in states if secrets))

    @classmethod
    def gather(cls, secrets: Sequence[str], parts: Iterable[tuple[str, Any]]) -> Cover:
        """parts: values, each behind the pointer at which it stands in a state."""
        written: set[str] = set()
        for at, part in parts:
            for value in _values(part, _rest(secrets, at)):
                written |= {value, repr(value)[1:-1], json.dumps(value)[1:-1]}
        values = tuple(sorted(filter(str.strip, written), key=len, reverse=True))
        alone = [rf"(?<!\w){re.escape(v)}(?!\w)" if len(v) < SHORT else re.escape(v) for v in values]
        return cls(re.compile("|".join(alone)) if alone else None, values)

    def text(self, text: str) -> str:
        """The text without them; nor may the beginning or the end of one stand where the text was cut off."""
        if self.pattern is None:
            return text
        is_cut, text = len(text) >= CUT, self.pattern.sub(HIDDEN, text)
        for value in self.values if is_cut else ():
            for size in range(min(len(value) - 1, len(text)), SHORT - 1, -1):
                if text.endswith(value[:size]):
                    text = text[:-size] + HIDDEN
                if text.startswith(value[-size:]):
                    text = HIDDEN + text[size:]
        return text

    def json(self, value: Any) -> Any:
        """The JSON value, with all its texts covered."""
        if self.pattern is None:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.json(item) for key, item in value.items()}
        return [self.json(item) for item in value] if isinstance(value, list) else value


def _values(value: Any, paths: list[list[str]]) -> Iterator[str]:
    """The texts and numbers below the paths."""
    if [] in paths:
        yield from _leaves(value)
        return
    for key, item in _children(value):
        below = _into(paths, pointer(key)[1:])
        if below:
            yield from _values(item, below)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, SecretBytes):
        yield value.get_secret_value().decode("utf-8", "replace")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
    else:
        for _, item in _children(value):
            yield from _leaves(item)


def _children(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, BaseModel):
        return [(name, getattr(value, name, None)) for name in type(value).model_fields]
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, Log):
        return value.known()
    return enumerate(value) if isinstance(value, list | tuple | set | frozenset) else ()
