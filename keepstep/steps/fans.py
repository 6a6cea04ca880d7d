"""A fan-out as it is stored: all that a node without the workflow's code must know to begin its branches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from keepstep.steps import state as states
from keepstep.steps.branches import Branches, plain
from keepstep.steps.branching import UNGIVEN, Asked, FanOut, OnError, Shape
from keepstep.steps.chunks import Fetch, expanded
from keepstep.steps.errors import BadOutcome, BadState, BadThreadId, UnknownStep
from keepstep.steps.keys import check_thread_id
from keepstep.steps.step import Step, Target
from keepstep.steps.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What the branches of one step, or the children of one workflow, have in common.

    name: in their thread ids. is_child: its result is its whole last state. hooks: the events that have some. secrets:
    where the state has secret fields; of a branch, whose item may be the whole state, below its item.
    """

    name: str
    workflow: str
    target: Target
    schema_version: int
    is_child: bool
    hooks: tuple[str, ...]
    secrets: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One branch. kind: its place among the fan-out's kinds. state: its first. sent: what a child was sent, if else."""

    kind: int
    name: str | None
    thread_id: str | None
    state: states.JSON
    sent: states.JSON | None


@dataclass(frozen=True, kw_only=True)
class Fan:
    """A fan-out. then: the step behind it, None if it is the end of the case."""

    shape: Shape
    into: str | None
    then: Target | None
    on_error: OnError
    max_running: int | None
    kinds: tuple[Kind, ...]
    branches: tuple[Branch, ...]


def nothing(outcome: FanOut) -> dict[str, Any]:
    """The update of a fan-out over nothing, which is over at once."""
    return {} if outcome.into is None else {outcome.into: {} if outcome.shape == "dict" else []}


def fan_of(workflow: Workflow, step: Step, outcome: FanOut, state: states.JSON, fetch: Fetch | None = None) -> Fan:
    """The fan-out that an outcome begins, from the new state. Raises BadState, BadOutcome, UnknownStep.

    fetch: reads the logs of the state for a branch that is given all of it.
    """
    if outcome.into is not None and outcome.into not in workflow.state.model_fields:
        raise BadState(
            f"fan_out(into={outcome.into!r}): {workflow.state.__name__} has no such field",
            path=states.pointer(outcome.into),
        )
    then = workflow.following(step) if outcome.then is None else workflow.follow(step, outcome.then)
    maker = _Maker(workflow, state, fetch)
    branches = tuple(maker.make(number, asked) for number, asked in enumerate(outcome.branches))
    return Fan(
        shape=outcome.shape,
        into=outcome.into,
        then=None if then is None else then.target,
        on_error=outcome.on_error,
        max_running=outcome.max_running,
        kinds=tuple(maker.kinds),
        branches=branches,
    )


@dataclass
class _Maker:
    workflow: Workflow
    state: states.JSON
    fetch: Fetch | None
    kinds: list[Kind] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    def make(self, number: int, asked: Asked) -> Branch:
        which = asked.name if asked.name is not None else number
        if asked.step is not None:
            return self._branch(which, asked, asked.step)
        return self._child(which, asked)

    def _branch(self, which: str | int, asked: Asked, name: str) -> Branch:
        kind = self.known.get(name)
        if kind is None:
            kind = self.known[name] = self._add(_step_of(self.workflow, name), is_child=False)
        item = (
            self.whole
            if asked.item is UNGIVEN
            else plain(asked.item, f"/{which}", f"fan_out(): the item of branch {which!r}")
        )
        states.refuse_what_json_lacks(item, f"fan_out(): the item of branch {which!r} ")
        return Branch(kind=kind, name=asked.name, thread_id=None, state={"item": item, "result": None}, sent=None)

    @cached_property
    def whole(self) -> states.JSON:
        """The state with all that is in its logs: a branch is a case of its own, which can't read this one's."""
        return self.state if self.fetch is None else expanded(self.state, self.fetch)

    def _child(self, which: str | int, asked: Asked) -> Branch:
        definition = asked.workflow
        if isinstance(definition, str):
            if definition != self.workflow.name:
                raise BadOutcome(
                    f"start_child({definition!r}): give the Workflow itself; by name goes only {self.workflow.name!r}"
                )
            definition = self.workflow
        if not isinstance(definition, Workflow) or isinstance(definition, Branches):
            raise BadOutcome(f"start_child({definition!r}): a child is a case of a Workflow")
        definition.check()
        kind = self.known.get(id(definition))
        if kind is None:
            kind = self.known[id(definition)] = self._add((definition, definition.first), is_child=True)
        if asked.thread_id is not None:
            try:
                check_thread_id(asked.thread_id)
            except BadThreadId as error:
                raise BadOutcome(f"start_child({definition.name!r}): {error}") from None
        state, sent = _begun(definition, which, asked.item)
        return Branch(kind=kind, name=asked.name, thread_id=asked.thread_id, state=state, sent=sent)

    def _add(self, found: tuple[Workflow, Step], *, is_child: bool) -> int:
        definition, step = found
        self.kinds.append(
            Kind(
                name=definition.name if is_child else step.name,
                workflow=definition.name,
                target=step.target,
                schema_version=definition.schema_version,
                is_child=is_child,
                hooks=tuple(sorted(definition.hooks)),
                secrets=tuple(definition.secrets)
                if is_child
                else (*self.workflow.secrets, *(f"/item{secret}" for secret in self.workflow.secrets)),
            )
        )
        return len(self.kinds) - 1


def _step_of(workflow: Workflow, name: str) -> tuple[Workflow, Step]:
    branches = workflow.branches
    step = None if branches is None else branches.find(name)
    if branches is None or step is None:
        known = ", ".join(branches.steps) if branches is not None else "there are none"
        raise UnknownStep(
            f"fan_out names {name!r}, which is no branch step of {workflow.name!r} ({known}); declare it with "
            f"@{workflow.name}.branch"
        )
    return branches, step


def _begun(workflow: Workflow, which: str | int, given: Any) -> tuple[states.JSON, states.JSON | None]:
    """A child's first state, and what was sent if that is something else."""
    try:
        if isinstance(given, BaseModel):
            if not isinstance(given, workflow.state):
                raise BadState(f"a {type(given).__name__} was given, the state is a {workflow.state.__name__}")
            return states.dump(given), None
        if not isinstance(given, Mapping):
            raise BadState(f"its state must be a dict or a {workflow.state.__name__}, not a {type(given).__name__}")
        sent = plain(dict(given), "", "its state")
        states.refuse_what_json_lacks(sent, workflow.state.__name__)
        return states.dump(states.load(workflow.state, sent)), sent
    except BadState as error:
        raise BadState(f"start_child({workflow.name!r}), branch {which!r}: {error}", path=error.path) from None
