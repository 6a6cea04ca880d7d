"""How long a case is kept after it has ended."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from keepstep.steps.definition import check_duration
from keepstep.steps.errors import DefinitionError
from keepstep.steps.moves import TERMINAL

Retention = timedelta | Mapping[str, timedelta]
"""One for all endings, or one for each: {"completed": timedelta(days=30), "failed": timedelta(days=365)}."""


def check_retention(given: Retention | None, at: str) -> dict[str, float]:
    """Seconds by final status; a status that isn't there is kept for ever. 0 is allowed: gone with the next sweep."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return {str(status): _seconds("retention", given, at) for status in sorted(TERMINAL)}
    for status in given:
        if status not in TERMINAL:
            known = ", ".join(sorted(TERMINAL))
            raise DefinitionError(f"{at}: retention is by final status, which are {known}; there is no {status!r}")
    return {str(status): _seconds(f"retention of {status} cases", kept, at) for status, kept in given.items()}


def _seconds(what: str, kept: timedelta, at: str) -> float:
    return 0.0 if kept == timedelta(0) else check_duration(what, kept, at).total_seconds()


def check_kept(given: int | None, at: str) -> int | None:
    """How many checkpoints a live case keeps, at the least."""
    if given is not None and (type(given) is not int or given < 1):
        raise DefinitionError(f"{at}: keep_checkpoints must be a whole number from 1 on, not {given!r}")
    return given
