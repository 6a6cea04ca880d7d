"""Sees what steps and hooks raise, so that a failing test says why; the engine sees it as in production."""

from __future__ import annotations

import dataclasses
import inspect
import traceback
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from keepstep.steps.step import Step
from keepstep.steps.workflow import Workflow
from keepstep.testing.replacement import VERIFY, with_parts

_KEEPSTEP = str(Path(__file__).parents[1])


@dataclass(frozen=True, kw_only=True)
class StepError:
    """What a step's code raised; as text, with its traceback. error: the exception itself."""

    workflow: str
    thread_id: str
    step: str
    seq: int | None
    attempt: int
    error: BaseException

    def __str__(self) -> str:
        at = self.step if self.seq is None else f"{self.step}#{self.seq}"
        raised = "".join(traceback.format_exception(type(self.error), self.error, _own(self.error))).rstrip()
        return f"{self.workflow}/{self.thread_id} {at} attempt {self.attempt} raised:\n{raised}"


class Witness:
    """Wraps the functions of workflows, and keeps what they raise. errors: the oldest first."""

    def __init__(self) -> None:
        self.errors: list[StepError] = []
        self._not_for_the_step: BaseException | None = None

    def watch(self, workflow: Workflow, fakes: Collection[str]) -> Workflow:
        """A copy of the workflow whose functions are watched. fakes: the names that the test has replaced."""
        steps = {name: self._step(step, fakes) for name, step in workflow.steps.items()}
        hooks = {
            event: [self._watched(hook, event, is_fake=False) for hook in hooks]
            for event, hooks in workflow.hooks.items()
        }
        return with_parts(workflow, steps=steps, hooks=hooks)

    def pass_on(self) -> None:
        """Raise what was meant for the test and not for the step: Ctrl-C, a time-out or an assertion of the test."""
        error, self._not_for_the_step = self._not_for_the_step, None
        if error is not None:
            raise error

    def _step(self, step: Step, fakes: Collection[str]) -> Step:
        function = self._watched(step.function, None, is_fake=step.name in fakes)
        verify = step.verify
        if verify is not None:
            verify = self._watched(verify, None, is_fake=step.name + VERIFY in fakes)
        return dataclasses.replace(step, function=function, verify=verify)

    def _watched(self, function: Callable[..., Any], event: str | None, *, is_fake: bool) -> Callable[..., Any]:
        def watched(subject: Any, call: Any) -> Any:
            try:
                value = function(subject, call)
            except BaseException as error:
                self._note(subject, call, event, error, is_fake=is_fake)
                raise
            return awaiting(value, subject, call) if inspect.isawaitable(value) else value

        async def awaiting(value: Awaitable[Any], subject: Any, call: Any) -> Any:
            try:
                return await value
            except BaseException as error:
                self._note(subject, call, event, error, is_fake=is_fake)
                raise

        watched.__name__ = getattr(function, "__name__", "hook")  # a hook's key is made from it
        watched.__wrapped__ = function  # type: ignore[attr-defined]
        return watched

    def _note(self, subject: Any, call: Any, event: str | None, error: BaseException, *, is_fake: bool) -> None:
        case = call if event is None else subject  # a hook gets the case, a step's call knows its own
        self.errors.append(
            StepError(
                workflow=case.workflow,
                thread_id=case.thread_id,
                step=call.step if event is None else f"on_{event}",
                seq=call.seq if event is None else None,
                attempt=call.attempt,
                error=error,
            )
        )
        if _is_for_the_test(error) or (is_fake and isinstance(error, AssertionError)):
            self._not_for_the_step = error


def _own(error: BaseException) -> TracebackType | None:
    """Its traceback from the first line of the user's own code on, if there is one."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_KEEPSTEP):
        trace = trace.tb_next
    return trace or error.__traceback__


def _is_for_the_test(error: BaseException) -> bool:
    """Ctrl-C, and what pytest raises by itself: `pytest.fail`, `pytest.skip`, the time-out of a plugin."""
    if isinstance(error, Exception):
        return False
    return isinstance(error, KeyboardInterrupt) or any(k.__name__ == "OutcomeException" for k in type(error).__mro__)
