"""The branch steps of a workflow: how they are declared, and where they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from keepstep.steps.step import StepFunction

if TYPE_CHECKING:
    from keepstep.steps.branches import Branches
    from keepstep.steps.workflow import Workflow

F = TypeVar("F", bound=StepFunction)


class Fanning:
    """The part of a workflow that fans out."""

    _branches: Branches | None = None

    def adapted(self, function: StepFunction) -> StepFunction:
        """The function as the engine calls it, with (state, call)."""
        return function

    @overload
    def branch(self, function: F, /) -> F: ...
    @overload
    def branch(self, /, **options: Any) -> Callable[[F], F]: ...
    def branch(self, function: Any = None, /, **options: Any) -> Any:
        """Declare a step for `fan_out`, called as `branch(item, call)`; what it returns is the branch's result.

        Bare or with the options of `step`. It is no part of the order of the steps.
        """
        from keepstep.steps.branches import Branches  # which is a workflow itself

        if self._branches is None:
            self._branches = Branches(self)  # type: ignore[arg-type]
        return self._branches.step(function, **options) if function is not None else self._branches.step(**options)

    def check_item(self, step: str | None, state: Any) -> None:
        """Refuse a branch's state whose item can't be what its step declares: BadState. No other state is refused."""

    @property
    def branches(self) -> Workflow | None:
        """The branch steps, as a workflow of their own; None if there are none."""
        return self._branches
