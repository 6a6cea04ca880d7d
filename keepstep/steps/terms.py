"""How a case starts, besides its state: tags, delay, priority, queue, and what to do if it is there already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_args

from keepstep.steps import state as states
from keepstep.steps.definition import check_name
from keepstep.steps.errors import BadStart, BadState, DefinitionError
from keepstep.steps.keys import why_unstorable
from keepstep.steps.outcome import seconds_of

IfExists = Literal["return", "raise", "restart"]
Tags = Mapping[str, Any]

MOST_URGENT, DEFAULT_PRIORITY = 9, 5


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Checked terms. delay: seconds, None to start at once. priority: 0 to 9, None for the default, which is 5."""

    if_exists: IfExists = "return"
    tags: Tags | None = None
    delay: float | None = None
    priority: int | None = None
    queue: str | None = None

    @classmethod
    def of(
        cls,
        *,
        if_exists: IfExists = "return",
        tags: Tags | None = None,
        delay: timedelta | float | None = None,
        priority: int | None = None,
        queue: str | None = None,
    ) -> Terms:
        """Check what a caller gave; BadStart says what can't be."""
        if if_exists not in get_args(IfExists):
            raise BadStart(f"if_exists must be 'return', 'raise' or 'restart', not {if_exists!r}")
        if priority is not None and (type(priority) is not int or not 0 <= priority <= MOST_URGENT):
            raise BadStart(f"priority must be a whole number from 0 to 9 (the most urgent), not {priority!r}")
        try:
            if queue is not None:
                check_name("queue", queue, "start")
            seconds = None if delay is None else seconds_of(delay)
        except (DefinitionError, TypeError, ValueError) as error:
            raise BadStart(f"delay: {error}" if isinstance(error, TypeError | ValueError) else str(error)) from None
        return cls(if_exists=if_exists, tags=check_tags(tags), delay=seconds or None, priority=priority, queue=queue)


def check_tags(tags: Tags | None) -> Tags | None:
    """Return the tags if they can be kept as `jsonb` under names; None if there are none. Else BadStart."""
    if not tags:
        return None
    if not isinstance(tags, Mapping) or not all(isinstance(name, str) and name for name in tags):
        raise BadStart(f"tags must be a dict by name, such as {{'tenant': 'acme'}}, not {tags!r}")
    given = dict(tags)
    try:
        states.refuse_what_json_lacks(given, "tags")
    except BadState as error:
        raise BadStart(str(error)) from None
    for text in _texts(given):
        if (flaw := why_unstorable(text)) is not None:
            raise BadStart(f"tags: {text!r} has {flaw}")
    return given


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for pair in value.items() for part in pair for text in _texts(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]
    return [value] if isinstance(value, str) else []
