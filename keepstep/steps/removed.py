"""Steps that a workflow used to have, and where the cases go on that still stand at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from keepstep.steps.definition import check_name
from keepstep.steps.errors import DefinitionError

if TYPE_CHECKING:
    from keepstep.steps.step import Step
    from keepstep.steps.workflow import Workflow

END = None
"""The target of a removed step behind which nothing comes: the case is complete."""


def check_removed(removed: object, at: str) -> dict[str, str | None]:
    """Return the names of removed steps, each with the step to go on with; None is the end of the case."""
    if not isinstance(removed, Mapping):
        raise DefinitionError(f"{at}: removed must be a dict such as {{'old': 'goes_to'}}, not {removed!r}")
    return {
        check_name("step", name, f"{at}: removed"): END if to is END else check_name("step", to, f"{at}: removed")
        for name, to in removed.items()
    }


def check_targets(workflow: Workflow) -> None:
    """Refuse a removed step that is still declared, and one that leads nowhere or in a circle."""
    for name, to in workflow.removed.items():
        if workflow.find(name) is not None:
            raise DefinitionError(
                f"{workflow.at}: {workflow.name!r} declares the step {name!r}, and says it is removed"
            )
        seen = [name]
        while to is not END and workflow.find(to) is None:
            if to in seen or to not in workflow.removed:
                raise DefinitionError(
                    f"{workflow.at}: removed={{{name!r}: ...}} leads to {to!r}, which {workflow.name!r} doesn't have; "
                    f"its steps: {', '.join(workflow.steps)}"
                )
            seen.append(to)
            to = workflow.removed[to]


def instead(workflow: Workflow, name: str) -> Step | None:
    """The step that a case at the removed step `name` goes on with; None: it is complete."""
    to: str | None = name
    while to is not END and (step := workflow.find(to)) is None:
        to = workflow.removed[to]
    return None if to is END else step
