"""A workflow: a named definition of a state model and of steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Never, TypeVar, overload

from pydantic import BaseModel

from keepstep.steps.definition import (
    caller,
    check_duration,
    check_errors,
    check_name,
    check_names,
    check_options,
    check_signature,
    check_state_model,
    where,
)
from keepstep.steps.errors import DefinitionError, UnknownStep
from keepstep.steps.fanning import Fanning
from keepstep.steps.hooks import Event, Hook, check_hook
from keepstep.steps.removed import check_removed, check_targets
from keepstep.steps.retention import Retention, check_kept, check_retention
from keepstep.steps.retry import Retry
from keepstep.steps.secret import secrets_of
from keepstep.steps.step import InDoubt, OnExhausted, Step, StepFunction
from keepstep.steps.upcasts import Upcaster, Upcasts

DEFAULT_QUEUE = "keepstep"
DEFAULT_TIMEOUT = timedelta(hours=1)

F = TypeVar("F", bound=StepFunction)
U = TypeVar("U", bound=Upcaster)


class Workflow(Fanning):
    """A named definition of a state model and of steps, which follow one another in the order of declaration.

    name: unique among the loaded workflows. state: a pydantic model. schema_version: raise it when the state's shape
    changes. retention: how long an ended case is kept, None for ever; one for all, or by final status.
    keep_checkpoints: how many a live case keeps at the least, None for all; older ones are folded into one. queue,
    timeout, retry: defaults for the steps. permanent: errors that no retry can mend, in any step. inline: for how long
    the worker that has finished a step may go on with the next ones itself, instead of sending a message for each; for
    workflows of quick steps. removed: names of steps that it used to have, each with the step that cases which still
    stand there go on with (None: the end).
    """

    def __init__(
        self,
        name: str,
        *,
        state: type[BaseModel],
        schema_version: int = 1,
        retention: Retention | None = None,
        keep_checkpoints: int | None = None,
        queue: str = DEFAULT_QUEUE,
        timeout: timedelta = DEFAULT_TIMEOUT,
        retry: Retry | None = None,
        permanent: Sequence[type[BaseException]] = (),
        inline: timedelta | None = None,
        removed: Mapping[str, str | None] | None = None,
        **unknown: Never,
    ):
        check_options("Workflow()", unknown, type(self).__init__)
        self.at = caller("keepstep.steps")
        self.name = check_name("workflow", name, self.at)
        check_state_model(state, self.at)
        if not isinstance(schema_version, int) or schema_version < 1:
            raise DefinitionError(f"{self.at}: schema_version must be 1 or more, not {schema_version!r}")
        self.state, self.schema_version, self.retention = state, schema_version, retention
        self.kept_for = check_retention(retention, self.at)
        self.keep_checkpoints = check_kept(keep_checkpoints, self.at)
        self.secrets = secrets_of(state)
        self.queue = check_name("queue", queue, self.at)
        self.timeout = check_duration("timeout", timeout, self.at)
        self.retry = _checked_retry(Retry() if retry is None else retry, self.at)
        self.permanent = check_errors("permanent", permanent, self.at)
        self.inline = None if inline is None else check_duration("inline", inline, self.at)
        self.removed = check_removed(removed or {}, self.at)
        self.upcasts = Upcasts(self.name, self.schema_version)
        self.steps: dict[str, Step] = {}
        self.hooks: dict[str, list[Hook]] = {}
        self._aliases: dict[str, str] = {}
        self._branches = None

    def __repr__(self) -> str:
        return f"<Workflow {self.name!r} v{self.schema_version}, {len(self.steps)} steps>"

    # ------------------------------------------------------------------------------------------------ declaration
    @overload
    def step(self, function: F, /) -> F: ...
    @overload
    def step(
        self,
        /,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        queue: str | None = None,
        next: Sequence[str] | None = None,
        aliases: Sequence[str] = (),
        in_doubt: InDoubt = "retry",
        transactional: bool = False,
        heartbeat_timeout: timedelta | None = None,
        on_exhausted: OnExhausted = "hold",
        safe_errors: Sequence[type[BaseException]] = (),
        permanent: Sequence[type[BaseException]] = (),
        max_visits: int | None = None,
    ) -> Callable[[F], F]: ...
    def step(self, function: Any = None, /, **options: Any) -> Any:
        """Declare the next step; use it bare or with options.

        retry: tries and waits when it raises. timeout: how long an attempt may take (default: one hour). queue: the
        Celery queue. next: its edges; any other target is then refused. aliases: former names. in_doubt: what to do
        when nobody knows whether the call took effect: "retry" (deliver again under the same key), "hold" (ask a
        person), or a function verify(state, call) that returns Done(...), NotDone or Unknown. transactional: the step
        writes to keepstep's own database by `call.connection`, in one transaction with its checkpoint.
        heartbeat_timeout: how long the step may be silent between two `call.heartbeat()`. on_exhausted: "hold" or
        "fail" when the retries run out. safe_errors: exceptions that say that the call did not take effect. permanent:
        exceptions that no retry can mend; they fail the case. max_visits: how often a case may come to this step before
        it is held, so that a loop that finds no end is noticed.
        """
        check_options("step()", options, self._declare)
        if function is not None:
            self._declare(function, **options)
            return function

        def decorate(f: F) -> F:
            self._declare(f, **options)
            return f

        return decorate

    def _declare(
        self,
        function: StepFunction,
        *,
        name: str | None = None,
        retry: Retry | None = None,
        timeout: timedelta | None = None,
        queue: str | None = None,
        next: Sequence[str] | None = None,
        aliases: Sequence[str] = (),
        in_doubt: InDoubt = "retry",
        transactional: bool = False,
        heartbeat_timeout: timedelta | None = None,
        on_exhausted: OnExhausted = "hold",
        safe_errors: Sequence[type[BaseException]] = (),
        permanent: Sequence[type[BaseException]] = (),
        max_visits: int | None = None,
    ) -> None:
        at = where(function) if callable(function) else caller("keepstep.steps")
        given_name = getattr(function, "__name__", "") if name is None else name
        check_signature(function, given_name)
        step_name = check_name("step", given_name, at)
        former = check_names("aliases", aliases, at)
        for taken in (step_name, *former):
            if taken in self.steps or taken in self._aliases:
                first = self.steps.get(taken) or self.steps[self._aliases[taken]]
                raise DefinitionError(f"{at}: {self.name} has two steps named {taken!r}; the first is at {first.at}")
        if in_doubt not in ("retry", "hold") and not callable(in_doubt):
            raise DefinitionError(
                f"{at}: in_doubt must be 'retry', 'hold', or a function verify(state, call), not {in_doubt!r}"
            )
        if callable(in_doubt):
            check_signature(in_doubt, f"verify of {step_name}")
        if transactional and inspect.iscoroutinefunction(function):
            raise DefinitionError(f"{at}: a transactional step is an ordinary function, not an async one")
        if transactional and in_doubt != "retry":
            raise DefinitionError(
                f"{at}: step {step_name!r} is transactional, so it is never in doubt: leave in_doubt= away"
            )
        if on_exhausted not in ("hold", "fail"):
            raise DefinitionError(f"{at}: on_exhausted must be 'hold' or 'fail', not {on_exhausted!r}")
        if max_visits is not None and (type(max_visits) is not int or max_visits < 1):
            raise DefinitionError(f"{at}: max_visits must be a whole number from 1 on, not {max_visits!r}")
        self.steps[step_name] = Step(
            name=step_name,
            function=self.adapted(function),
            retry=_checked_retry(self.retry if retry is None else retry, at),
            timeout=check_duration("timeout", self.timeout if timeout is None else timeout, at),
            queue=check_name("queue", self.queue if queue is None else queue, at),
            next=None if next is None else check_names("next", next, at),
            aliases=former,
            in_doubt="verify" if callable(in_doubt) else in_doubt,
            verify=self.adapted(in_doubt) if callable(in_doubt) else None,
            transactional=bool(transactional),
            heartbeat_timeout=None
            if heartbeat_timeout is None
            else check_duration("heartbeat_timeout", heartbeat_timeout, at),
            on_exhausted=on_exhausted,
            safe_errors=check_errors("safe_errors", safe_errors, at),
            permanent=(*self.permanent, *check_errors("permanent", permanent, at)),
            max_visits=max_visits,
            at=at,
        )
        self._aliases.update(dict.fromkeys(former, step_name))

    def on(self, *events: Event) -> Callable[[F], F]:
        """Declare a hook: `hook(case, call)` is called after each event, at least once, with its own key."""

        def decorate(function: F) -> F:
            check_hook(function, events, caller("keepstep.steps"))
            for event in events:
                self.hooks.setdefault(event, []).append(function)
                if self._branches is not None:
                    self._branches.share(self.hooks)
            return function

        return decorate

    def upcast(
        self, *, from_version: int, signal: str | None = None, item: str | None = None, result: str | None = None
    ) -> Callable[[U], U]:
        """Declare what turns the JSON of `from_version` into that of the next version: `upcaster(stored) -> JSON`.

        Of the state; or of the payloads of one signal, or of the items or the results of one branch step. A pure
        function: it may change what it is given, which is a copy, and must need nothing else.
        """

        def decorate(function: U) -> U:
            at = where(function) if callable(function) else caller("keepstep.steps")
            self.upcasts.declare(function, from_version, at, signal=signal, item=item, result=result)
            return function

        return decorate

    def check(self) -> None:
        """Refuse what only the finished declaration shows: no step at all, an edge that leads nowhere, a gap."""
        if not self.steps:
            raise DefinitionError(f"{self.at}: workflow {self.name!r} has no steps")
        for step in self.steps.values():
            for target in step.next or ():
                if self.find(target) is None:
                    raise DefinitionError(
                        f"{step.at}: step {step.name!r} names next={target!r}, which {self.name!r} doesn't have; "
                        f"its steps: {', '.join(self.steps)}"
                    )
        check_targets(self)
        self.upcasts.check(() if self._branches is None else self._branches.steps, self.at)

    # ----------------------------------------------------------------------------------------------------- reading
    @property
    def first(self) -> Step:
        """The step that a case starts with."""
        return next(iter(self.steps.values()))

    def entry(self, _began: str | None) -> Step:
        """The step that a case begins with which began with this one before; of a branch, that one."""
        return self.first

    def find(self, name: str) -> Step | None:
        """The step of this name or alias."""
        return self.steps.get(self._aliases.get(name, name))

    @property
    def step_names(self) -> list[str]:
        """All names at which a case may stand: of steps, their aliases, and of those that were removed."""
        return [*self.steps, *self._aliases, *self.removed]

    def after(self, step: Step) -> Step | None:
        """The step declared after this one; None after the last."""
        names = list(self.steps)
        index = names.index(step.name) + 1
        return self.steps[names[index]] if index < len(names) else None

    def following(self, step: Step) -> Step | None:
        """The step that comes next if nobody says another: the only declared edge, else the next in order."""
        only = self.find(step.next[0]) if step.next is not None and len(step.next) == 1 else self.after(step)
        return None if only is None else self.follow(step, only.name)

    def follow(self, step: Step, name: str) -> Step:
        """The step `name` as a target of `step`; UnknownStep if there is none, or if it isn't a declared edge."""
        target = self.find(name)
        if target is None:
            raise UnknownStep(
                f"step {step.name!r} of {self.name!r} leads to {name!r}, which doesn't exist; "
                f"the steps are {', '.join(self.steps)}"
            )
        if step.next is not None and target.name not in {t.name for n in step.next if (t := self.find(n))}:
            raise UnknownStep(
                f"step {step.name!r} of {self.name!r} leads to {name!r}, but declares next={list(step.next)}"
            )
        return target


def _checked_retry(retry: Retry, at: str) -> Retry:
    if not isinstance(retry, Retry):
        raise DefinitionError(f"{at}: retry must be a Retry, such as Retry(attempts=3), not {retry!r}")
    return retry
