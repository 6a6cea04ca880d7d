"""A workflow's branch steps: a workflow of their own, whose cases are the branches that `fan_out` begins.

So everything that a case has, a branch has too: a key, attempts, timeouts, waits, a policy for doubt, an operator's
verbs. Its state is the item and, at the end, the result.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from keepstep.steps.errors import BadState, NotDone
from keepstep.steps.hooks import Hook
from keepstep.steps.outcome import Outcome
from keepstep.steps.step import Step, StepFunction
from keepstep.steps.verdict import Done, Unknown
from keepstep.steps.workflow import Workflow

SUFFIX = ".branches"
TOLD = ("held", "remind")
"""The events whose hooks are called for branches too: somebody must do something. Of the rest the parent tells."""


class BranchState(BaseModel):
    """What a branch works on, and what it came to."""

    item: Any = None
    result: Any = None


class Branches(Workflow):
    """The branch steps of a workflow. None follows another: a branch ends with what its step returns."""

    def __init__(self, parent: Workflow):
        super().__init__(
            parent.name + SUFFIX,
            state=BranchState,
            schema_version=parent.schema_version,
            queue=parent.queue,
            timeout=parent.timeout,
            retry=parent.retry,
            permanent=parent.permanent,
        )
        self.at = parent.at
        self.share(parent.hooks)

    def share(self, hooks: Mapping[str, list[Hook]]) -> None:
        """Have the parent's hooks for what somebody must do something about."""
        self.hooks = {event: hooks[event] for event in TOLD if event in hooks}

    @property
    def branches(self) -> Workflow:
        """Branches fan out into their like."""
        return self

    def after(self, step: Step) -> None:
        """Nothing comes after a branch's step."""

    def adapted(self, function: StepFunction) -> StepFunction:
        """A branch's function is one of (item, call), and returns the result."""
        return _of_items(function)


def _of_items(function: Callable[..., Any]) -> StepFunction:
    """A step of (state, call) that calls the function with (item, call), and keeps what it returns as the result."""
    reader = functools.cache(lambda: _reader(function))

    @functools.wraps(function)
    def of_item(state: BranchState, call: Any) -> Any:
        value = function(reader()(state.item), call)
        return _awaited(value) if inspect.isawaitable(value) else _kept(value)

    @functools.wraps(function)
    async def of_item_async(state: BranchState, call: Any) -> Any:
        return _kept(await function(reader()(state.item), call))

    return of_item_async if inspect.iscoroutinefunction(function) else of_item


async def _awaited(value: Awaitable[Any]) -> Any:
    return _kept(await value)


def _kept(value: Any) -> Any:
    """An outcome or a verdict as it is; anything else is the result."""
    if isinstance(value, Done):
        return Done(_kept(value.result))
    if isinstance(value, Outcome | NotDone | Unknown) or any(value is kind for kind in (Done, NotDone, Unknown)):
        return value
    return {"result": plain(value, "/result", "what the branch returned")}


def plain(value: Any, path: str, what: str) -> Any:
    """The value as plain JSON, models by field names; BadState with the path for what can't be."""
    try:
        return to_jsonable_python(value, by_alias=False, round_trip=True)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadState(f"{what}, a {type(value).__name__}, can't be JSON: {error}", path=path) from None


def _reader(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """How the function's item is made from JSON: by the type that it declares, or as it is."""
    kind = _declared(function)
    if kind is None:
        return lambda item: item
    adapter = TypeAdapter[Any](kind)

    def read(item: Any) -> Any:
        try:
            return adapter.validate_python(item, by_name=True, by_alias=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            below = "".join(f"/{part}" for part in first["loc"])
            raise BadState(f"the item doesn't fit: /item{below}: {first['msg']}", path=f"/item{below}") from None

    return read


def _declared(function: Callable[..., Any]) -> Any:
    """The type of the first parameter; None if it says nothing, or nothing that could be found out."""
    code = function if inspect.isroutine(function) else type(function).__call__
    try:
        names = list(inspect.signature(function).parameters)
        kind = typing.get_type_hints(code).get(names[0])
        if kind is not None and kind is not Any:
            TypeAdapter(kind)
        return kind
    except Exception:  # noqa: BLE001  (names of a type checker only, types that pydantic doesn't know)
        return None
