"""Does a payload fit what a case waits for? By the stored JSON Schema, and by the workflow's code if it is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

import jsonschema
from pydantic import TypeAdapter, ValidationError
from referencing.exceptions import Unresolvable

from keepstep.checkpoint import codec

Fits = Callable[[str, str | None, Any], str | None]
"""(workflow, field, payload) -> why the payload can't be that field, or None; None too if the code isn't loaded."""

_FORMATS = {"date-time": datetime, "date": date, "time": time, "duration": timedelta, "uuid": UUID}


def unchecked(_workflow: str, _field: str | None, _payload: Any) -> str | None:
    """The check of a sender without any workflow's code: the stored schema alone decides."""
    return None


def misfit(schema: str | None, payload: Any) -> str | None:
    """Why the payload doesn't fit the stored JSON Schema; None if it does, or if the schema itself can't be used.

    A schema may hold what only pydantic understands (a pattern of its own regular expressions): such a one refuses
    nobody, and the workflow's code has the last word.
    """
    if schema is None:
        return None
    try:
        validator = jsonschema.Draft202012Validator(codec.decode(schema), format_checker=_format_checker())
        error = next(iter(validator.iter_errors(payload)), None)
    except (re.error, RecursionError, Unresolvable, jsonschema.exceptions.SchemaError, ValueError):
        return None
    return None if error is None else f"{error.json_path}: {error.message}"[:500]


@lru_cache(maxsize=1)
def _format_checker() -> jsonschema.FormatChecker:
    """The formats that pydantic writes into a schema, checked by pydantic."""
    checker = jsonschema.FormatChecker(formats=())
    for name, kind in _FORMATS.items():
        checker.checks(name, raises=ValidationError)(_parses(TypeAdapter(kind)))
    return checker


def _parses(adapter: TypeAdapter[Any]) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        if isinstance(value, str):
            adapter.validate_python(value)
        return True

    return check
