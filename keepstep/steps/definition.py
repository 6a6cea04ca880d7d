"""Checks of a workflow's declaration. What is wrong is said when the module is imported, with file and line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from keepstep.steps.errors import DefinitionError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


def where(thing: Callable[..., Any] | type) -> str:
    """The file and line of a function or class, as `file.py:12`."""
    thing = inspect.unwrap(thing)
    if not isinstance(thing, type) and hasattr(thing, "__code__"):
        return f"{thing.__code__.co_filename}:{thing.__code__.co_firstlineno}"
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return getattr(thing, "__module__", "?")


def caller(module: str) -> str:
    """The file and line that called into keepstep.steps.* from outside of it."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(module):
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def check_name(kind: str, name: str, at: str) -> str:
    """Return a workflow's, step's, queue's or signal's name if it can be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{at}: {kind} name {name!r} must be 1 to 100 letters, digits, '_', '-' or '.', and not begin with a digit"
        )
    return name


def check_state_model(model: type[BaseModel], at: str) -> None:
    """Refuse a state model that isn't pydantic's, or that has a field which JSON can't hold."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise DefinitionError(f"{at}: state must be a pydantic model class, not {model!r}")
    for name, info in model.model_fields.items():
        try:
            TypeAdapter[object](info.annotation or object).json_schema(mode="serialization")
        except (PydanticUserError, PydanticSchemaGenerationError) as error:
            reason = str(error).splitlines()[0]
            raise DefinitionError(
                f"{where(model)}: {model.__name__}.{name} can't be kept as JSON: {reason} "
                "Keep a reference to it (an id, a path, a URL) instead."
            ) from None
        if info.exclude:
            raise DefinitionError(f"{where(model)}: {model.__name__}.{name} is excluded from JSON, so it would be lost")
    try:
        model.model_json_schema(mode="serialization")
    except PydanticUserError as error:
        raise DefinitionError(
            f"{where(model)}: {model.__name__} can't be kept as JSON: {str(error).splitlines()[0]}"
        ) from None


def check_signature(step: Callable[..., Any], name: str) -> None:
    """Refuse a step that can't be called as step(state, call)."""
    if not callable(step):
        raise DefinitionError(f"step {name!r} is not a function: {step!r}")
    if inspect.isgeneratorfunction(step) or inspect.isasyncgenfunction(step):
        raise DefinitionError(f"{where(step)}: step {name!r} is a generator; a step returns its changes once")
    signature = inspect.signature(step)
    try:
        signature.bind(object(), object())
    except TypeError:
        raise DefinitionError(
            f"{where(step)}: step {name!r} must take (state, call), but is declared as {name}{signature}"
        ) from None
