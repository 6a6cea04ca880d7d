"""Checks of a workflow's declaration. What is wrong is said when the module is imported, with file and line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from difflib import get_close_matches
from functools import partial
from typing import Any, get_args

from pydantic import BaseModel, RootModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from keepstep.steps.errors import DefinitionError
from keepstep.steps.log import is_log

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_LONGEST = timedelta(days=100 * 365)
_UNFIT = (PydanticUserError, PydanticUndefinedAnnotation)


def where(thing: Callable[..., Any] | type) -> str:
    """The file and line of a function or class, as `file.py:12`; of its declaration, if it has no source of its own."""
    thing = inspect.unwrap(thing)
    if isinstance(thing, partial):
        return where(thing.func)
    if not isinstance(thing, type):
        thing = thing if hasattr(thing, "__code__") else type(thing).__call__
        if hasattr(thing, "__code__"):
            return f"{thing.__code__.co_filename}:{thing.__code__.co_firstlineno}"
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return caller("keepstep.steps")


def caller(module: str) -> str:
    """The file and line that called into keepstep.steps.* from outside of it."""
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(module):
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def check_options(owner: str, given: Iterable[str], declared: Callable[..., Any]) -> None:
    """Refuse an option that `declared` doesn't have, at the line that gives it; the message lists those that exist."""
    known = [p.name for p in inspect.signature(declared).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"; did you mean {near[0]!r}?" if near else "."
            raise DefinitionError(
                f"{caller('keepstep.steps')}: {owner} has no option {name!r}{meant} Its options: {', '.join(known)}"
            )


def check_name(kind: str, name: str, at: str) -> str:
    """Return a workflow's, step's, queue's or signal's name if it can be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise DefinitionError(
            f"{at}: {kind} name {name!r} must be 1 to 100 letters, digits, '_', '-' or '.', and not begin with a digit"
        )
    return name


def check_names(kind: str, names: Iterable[str], at: str) -> tuple[str, ...]:
    """Return a list of steps' names; a single string is refused, as it would be taken for a list of letters."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise DefinitionError(f"{at}: {kind} must be a list of step names, not {names!r}")
    return tuple(check_name("step", name, f"{at}: {kind}") for name in names)


def check_errors(kind: str, classes: Iterable[type[BaseException]], at: str) -> tuple[type[BaseException], ...]:
    """Return a list of exception classes."""
    listed = tuple(classes) if isinstance(classes, Iterable) else (None,)
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in listed):
        raise DefinitionError(f"{at}: {kind} must be a list of exception classes, not {classes!r}")
    return listed


def check_duration(kind: str, duration: timedelta, at: str) -> timedelta:
    """Return a positive timedelta which, added to now, is still an instant."""
    if not isinstance(duration, timedelta) or not timedelta(0) < duration <= _LONGEST:
        raise DefinitionError(f"{at}: a {kind} must be a positive timedelta of at most a century, not {duration!r}")
    return duration


def check_state_model(model: type[BaseModel], at: str) -> None:
    """Refuse a state model that isn't pydantic's, or that has a field which JSON can't hold."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)) or issubclass(model, RootModel):
        raise DefinitionError(f"{at}: state must be a pydantic model class with fields, not {model!r}")
    for name, info in model.model_fields.items():
        if info.exclude:
            raise DefinitionError(f"{where(model)}: {model.__name__}.{name} is excluded from JSON, so it would be lost")
        inside = get_args(info.annotation) if is_log(info.annotation) else (info.annotation,)
        if any(_has_log(kind, ()) for kind in inside):
            raise DefinitionError(
                f"{where(model)}: {model.__name__}.{name} has a Log inside: a Log is a field of the state itself"
            )
    try:
        model.model_json_schema(mode="serialization")
    except _UNFIT as error:
        name, reason = _unfit_field(model) or ("", str(error).splitlines()[0])
        raise DefinitionError(
            f"{where(model)}: {model.__name__}{name} can't be kept as JSON: {reason} "
            "Keep a reference to it (an id, a path, a URL) instead."
        ) from None


def _has_log(kind: Any, above: tuple[type, ...]) -> bool:
    """Whether a value of the type has a log in it."""
    if is_log(kind):
        return True
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in above:
        return any(_has_log(info.annotation, (*above, kind)) for info in kind.model_fields.values())
    return any(_has_log(arg, above) for arg in get_args(kind))


def _unfit_field(model: type[BaseModel]) -> tuple[str, str] | None:
    """The first field whose type alone can't be JSON, and why."""
    for name, info in model.model_fields.items():
        try:
            TypeAdapter[object](info.annotation or object).json_schema(mode="serialization")
        except _UNFIT as error:
            return f".{name}", str(error).splitlines()[0]
    return None


def check_signature(step: Callable[..., Any], name: str) -> None:
    """Refuse a step that can't be called as step(state, call)."""
    if not callable(step):
        raise DefinitionError(f"{caller('keepstep.steps')}: a step is a function of (state, call), not {step!r}")
    code = step if inspect.isroutine(step) or isinstance(step, partial) else type(step).__call__
    if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
        raise DefinitionError(f"{where(step)}: step {name!r} is a generator; a step returns its changes once")
    try:
        signature = inspect.signature(step)
    except ValueError:
        raise DefinitionError(f"{where(step)}: step {name!r} doesn't say what it takes: {step!r}") from None
    try:
        signature.bind(object(), object())
    except TypeError:
        declared = f"{getattr(step, '__name__', name)}{signature}"
        raise DefinitionError(
            f"{where(step)}: step {name!r} must take (state, call), but is declared as {declared}"
        ) from None
