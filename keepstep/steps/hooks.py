"""Hooks: functions that are called when something becomes of a case. Each runs as a task of its own, at least once."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from keepstep.steps.definition import where
from keepstep.steps.errors import DefinitionError

Event = Literal["held", "completed", "failed", "cancelled", "remind"]
EVENTS: tuple[str, ...] = get_args(Event)

Hook = Callable[..., Any]

HOOK_SECONDS = 50.0
"""How long the hooks of one event may take before they are interrupted, as if one had raised: less than until the next
try, so that two tries never meet."""


def names_of(hooks: Sequence[Hook]) -> list[str]:
    """A name for each function, for its key: its own, with a number if an earlier one has the same."""
    names = [getattr(hook, "__name__", "hook") for hook in hooks]
    earlier = [names[:index].count(name) for index, name in enumerate(names)]
    return [name if not count else f"{name}:{count}" for name, count in zip(names, earlier, strict=True)]


@dataclass(frozen=True, kw_only=True)
class HookCall:
    """The one outside call that a hook makes.

    key: an idempotency key, the same on every attempt. attempt: 1 on the first try. reason: why the case
    was held, or the error that it failed with, as `Case.reason` and `Case.error` had it then; on "cancelled" who wanted
    it and why, as `{"actor": ..., "reason": ...}`; else empty. wait: on "remind", the name of the wait that nobody has
    answered yet. The case itself is as it stands now: it may have gone on since.
    """

    event: str
    key: str
    attempt: int
    log: logging.LoggerAdapter[logging.Logger]
    reason: Mapping[str, Any] = field(default_factory=dict)
    wait: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The key as HTTP headers, ready to send."""
        return {"Idempotency-Key": self.key}


def check_hook(function: Hook, events: tuple[str, ...], at: str) -> None:
    """Refuse events that don't exist, and functions that can't be called as hook(case, call)."""
    unknown = [event for event in events if event not in EVENTS]
    if unknown or not events:
        named = ", ".join(unknown) or "nothing"
        raise DefinitionError(f"{at}: on() takes one or more of {', '.join(EVENTS)}, not {named}")
    if not callable(function):
        raise DefinitionError(f"{at}: a hook is a function, not {function!r}")
    try:
        inspect.signature(function).bind(object(), object())
    except TypeError:
        raise DefinitionError(f"{where(function)}: a hook must take (case, call)") from None
