"""A copy of a workflow in which some steps call other functions: what a test puts in the place of the outside."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from keepstep.steps.definition import check_signature, where
from keepstep.steps.errors import DefinitionError
from keepstep.steps.hooks import Hook
from keepstep.steps.step import Step
from keepstep.steps.workflow import Workflow

VERIFY = ".verify"


def replaced(workflow: Workflow, functions: Mapping[str, Callable[..., Any]]) -> Workflow:
    """A copy of the workflow, under its own name, whose steps of these names call these functions.

    A name with `.verify` behind it is the step's `in_doubt` function. All else stays: retry, timeout, in_doubt,
    transactional. DefinitionError for a name that there isn't, or a function that the step couldn't be declared with.
    """
    steps = dict(workflow.steps)
    for name, function in functions.items():
        step, is_verify = _place(workflow, name)
        current = steps[step.name]
        check_signature(function, name)
        if is_verify:
            steps[step.name] = dataclasses.replace(current, verify=workflow.adapted(function))
            continue
        if step.transactional and inspect.iscoroutinefunction(function):
            raise DefinitionError(f"{where(function)}: a transactional step is an ordinary function, not an async one")
        steps[step.name] = dataclasses.replace(current, function=workflow.adapted(function))
    return with_parts(workflow, steps=steps, hooks=workflow.hooks)


def with_parts(workflow: Workflow, *, steps: Mapping[str, Step], hooks: Mapping[str, list[Hook]]) -> Workflow:
    """A copy of the workflow with these steps and hooks."""
    twin = copy.copy(workflow)
    twin.steps, twin.hooks = dict(steps), {event: list(functions) for event, functions in hooks.items()}
    return twin


def by_workflow(
    workflows: Iterable[Workflow], given: Mapping[str, Callable[..., Any]]
) -> dict[str, dict[str, Callable[..., Any]]]:
    """`{"intake.pull": f}` as `{"intake": {"pull": f}}`; DefinitionError for a name that fits no step."""
    known = {workflow.name: workflow for workflow in workflows}
    found: dict[str, dict[str, Callable[..., Any]]] = {name: {} for name in known}
    for name, function in given.items():
        owners = [w for w in known.values() if name.startswith(f"{w.name}.") and _find(w, name[len(w.name) + 1 :])]
        if not owners:
            steps = ", ".join(f"{w.name}.{step}" for w in known.values() for step in w.steps)
            raise DefinitionError(f"replace names {name!r}, which is no step. The steps: {steps}")
        owner = max(owners, key=lambda w: len(w.name))  # names may have dots in them
        step, is_verify = _place(owner, name[len(owner.name) + 1 :])
        found[owner.name][step.name + VERIFY if is_verify else step.name] = function
    return found


def _place(workflow: Workflow, name: str) -> tuple[Step, bool]:
    place = _find(workflow, name)
    if place is None:
        raise DefinitionError(
            f"{workflow.name!r} has no step {name!r} to be replaced; its steps: {', '.join(workflow.steps)}"
        )
    return place


def _find(workflow: Workflow, name: str) -> tuple[Step, bool] | None:
    """The step of this name, and whether it is its verify that is meant."""
    step = workflow.find(name)
    if step is not None:
        return step, False
    step = workflow.find(name.removesuffix(VERIFY)) if name.endswith(VERIFY) else None
    return (step, True) if step is not None and step.verify is not None else None
