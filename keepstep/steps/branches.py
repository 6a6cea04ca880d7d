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

from keepstep.steps import state as states
from keepstep.steps.errors import BadState, NotDone
from keepstep.steps.hooks import Hook
from keepstep.steps.log import listed
from keepstep.steps.outcome import Outcome
from keepstep.steps.step import Step, StepFunction
from keepstep.steps.upcasts import Upcasts
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
        self.upcasts = BranchUpcasts(self, parent)
        self.share(parent.hooks)

    def share(self, hooks: Mapping[str, list[Hook]]) -> None:
        """Have the parent's hooks for what somebody must do something about."""
        self.hooks = {event: hooks[event] for event in TOLD if event in hooks}

    @property
    def branches(self) -> Workflow:
        """Branches fan out into their like."""
        return self

    def entry(self, began: str | None) -> Step:
        """A branch begins again with its own step."""
        return (began and self.find(began)) or self.first

    def after(self, step: Step) -> None:
        """Nothing comes after a branch's step."""

    def adapted(self, function: StepFunction) -> StepFunction:
        """A branch's function is one of (item, call), and returns the result."""
        return _of_items(function)

    def check_item(self, step: str | None, state: Any) -> None:
        """The item must be what the step declares. A step that isn't known is somebody else's matter."""
        known = None if step is None else self.find(step)
        if known is not None:
            _reader(known.function).read(state.item)


class BranchUpcasts(Upcasts):
    """Those of a branch's state: of the item and the result of the step it stands at, declared with the workflow."""

    def __init__(self, branches: Branches, parent: Workflow):
        super().__init__(branches.name, branches.schema_version)
        self._branches, self._parent = branches, parent

    def state(self, stored: states.JSON, version: int, step: str | None = None) -> states.JSON:
        """As of any workflow. An item that its step declares as the parent's state is upcast as that is.

        Without a step, or one that this code doesn't have, it is left as it is stored.
        """
        self.refuse_newer(version)
        known = None if step is None else self._branches.find(step)
        if known is None or version == self._branches.schema_version:
            return stored
        made = {**stored, "item": self._item(known, stored.get("item"), version)}
        if stored.get("result") is not None:
            made["result"] = self.result(known.name, stored["result"], version)
        return made

    def payload(self, signal: str, payload: Any, version: int, to: int) -> Any:
        """A signal is named once, whoever waits for it."""
        return self._parent.upcasts.payload(signal, payload, version, to)

    def result(self, step: str, result: Any, version: int) -> Any:
        """The branch's result, as its parent takes it."""
        known = self._branches.find(step)
        name = step if known is None else known.name
        return self._parent.upcasts.named(("result", name), result, version, at="/result")

    def _item(self, step: Step, item: Any, version: int) -> Any:
        of, named = self._parent.upcasts, ("item", step.name)
        if not of.has(named) and _reader(step.function).kind is self._parent.state and isinstance(item, dict):
            return of.state(item, version)
        return of.named(named, item, version, at="/item")


def _of_items(function: Callable[..., Any]) -> StepFunction:
    """A step of (state, call) that calls the function with (item, call), and keeps what it returns as the result."""

    @functools.wraps(function)
    def of_item(state: BranchState, call: Any) -> Any:
        value = function(_reader(of_item).read(state.item), call)
        return _awaited(value) if inspect.isawaitable(value) else _kept(value)

    @functools.wraps(function)
    async def of_item_async(state: BranchState, call: Any) -> Any:
        return _kept(await function(_reader(of_item_async).read(state.item), call))

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
        return to_jsonable_python(value, by_alias=False, round_trip=True, fallback=listed)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise BadState(f"{what}, a {type(value).__name__}, can't be JSON: {error}", path=path) from None


@functools.lru_cache(maxsize=1024)
def _reader(function: StepFunction) -> Reader:
    """What reads the items of a branch step's function, however it is wrapped."""
    return Reader(inspect.unwrap(function))


class Reader:
    """How a function's item is made from JSON: by the type that it declares, or as it is. kind: that type, or None."""

    def __init__(self, function: Callable[..., Any]):
        self.kind = _declared(function)
        self._adapter = None if self.kind is None else TypeAdapter[Any](self.kind)

    def read(self, item: Any) -> Any:
        """The item, made anew. Raises BadState with the path of what doesn't fit."""
        if self._adapter is None:
            return item
        try:
            return self._adapter.validate_python(item, by_name=True, by_alias=False)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            below = "".join(f"/{part}" for part in first["loc"])
            raise BadState(f"the item doesn't fit: /item{below}: {first['msg']}", path=f"/item{below}") from None


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
