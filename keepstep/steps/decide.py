"""From what a step did to what becomes of the case: a pure decision, carried out by one guarded statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel

from keepstep.steps import state as states
from keepstep.steps.branching import FanOut
from keepstep.steps.chunks import Fetch
from keepstep.steps.described import describe as describe
from keepstep.steps.described import storable as storable
from keepstep.steps.errors import (
    BadOutcome,
    BadState,
    CallMismatch,
    LogUnfit,
    NotDone,
    UnknownStep,
)
from keepstep.steps.fans import Fan, fan_of, nothing
from keepstep.steps.log_items import log_trouble
from keepstep.steps.moves import Status
from keepstep.steps.outcome import Fail, Finish, Goto, Outcome, Sleep
from keepstep.steps.removed import instead
from keepstep.steps.step import Step, Target
from keepstep.steps.value import value
from keepstep.steps.waiting import WaitFor, WaitTogether
from keepstep.steps.waits import Wait, waits_of
from keepstep.steps.workflow import Workflow


@value
class View:
    """What a decision may look at: the definition, the state before (and its JSON text), and the counters of the step.

    failures: how often this step has raised so far. elapsed: seconds since the case reached it. verifications: how
    often its verification came to nothing. settling: seconds that an outside system gets before it is asked about a
    call. fetch: reads the state's logs.
    """

    workflow: Workflow
    step: Step
    before: states.JSON
    before_text: str | None = None
    failures: int = 0
    elapsed: float = 0.0
    verifications: int = 0
    settling: float = 0.0
    fetch: Fetch | None = None


@value
class Returned:
    """The step returned. copy: the state it was given, as it left it."""

    value: Any
    copy: BaseModel


@dataclass(frozen=True, kw_only=True)
class Raised:
    """The step raised."""

    error: BaseException


@dataclass(frozen=True, kw_only=True)
class TimedOut:
    """The step was interrupted at its deadline, after `timeout` seconds."""

    timeout: float


Result = Returned | Raised | TimedOut

Doubt = Literal["keep", "begin", "verify", "clear"]
"""What an attempt without a checkpoint says of the call in doubt: nothing new, its own is, its verification came to
nothing, it is settled."""

IN_DOUBT = "in doubt: nobody knows whether the call took effect"


@value
class Decision:
    """What becomes of the case.

    move: its row in the table of moves. state: the new state; None when no checkpoint is written. text: its JSON, and
    shrinks: by how many bytes it is shorter than the one before, where that is known already. blobs: by digest, what of
    its logs is to be stored before it. target: the next step. delay: seconds to sleep, or until: the instant to wake
    at. waits: what is waited for. fan: the branches that begin. error: what went wrong, as JSON, for the attempts table
    and for people. doubt: see Doubt. cost, key_read: what the call said of itself. kind: of its checkpoint, if it isn't
    a step's.
    """

    move: str
    status: Status
    state: states.JSON | None = None
    text: str | None = None
    shrinks: int | None = None
    blobs: Mapping[str, str] = field(default_factory=dict)
    target: Target | None = None
    delay: float | None = None
    until: datetime | None = None
    waits: tuple[Wait, ...] = ()
    fan: Fan | None = None
    error: dict[str, Any] = field(default_factory=dict)
    doubt: Doubt = "keep"
    cost: Mapping[str, float] | None = None
    key_read: bool | None = None
    kind: str | None = None


def decide(view: View, result: Result) -> Decision:
    """Say what becomes of the case. Never raises: a step's bad result is itself a reason to hold the case."""
    if isinstance(result, Returned):
        try:
            return returned(view, result)
        except Exception as error:  # noqa: BLE001  (the user's models and values may raise anything)
            return unreadable(error) or hold("bad result", describe(error))
    if isinstance(result, TimedOut):
        message = f"the step took longer than its timeout of {result.timeout:g} s"
        timed_out = {"type": "Timeout", "message": message}
        if view.step.in_doubt == "verify":  # the request may still be on its way: too early to ask about it
            return hold(IN_DOUBT, timed_out, doubt="begin")
        return _failed(view, None, timed_out)
    return _failed(view, result.error, describe(result.error))


def exhausted(view: View) -> Decision | None:
    """The decision for a step whose tries are used up before it is called once more; None if there is one left."""
    if view.failures < view.step.retry.attempts:
        return None
    return _exhausted(view, {"type": "Timeout", "message": f"{view.failures} attempts were made, none came back"})


def hold(why: str, error: dict[str, Any], *, doubt: Doubt = "keep") -> Decision:
    """Park the case for an operator at its last good checkpoint."""
    return Decision(move="hold", status=Status.HELD, error={**error, "why": why}, doubt=doubt)


def unreadable(error: BaseException, *, doubt: Doubt = "keep") -> Decision | None:
    """A hold, if what a log of the state holds is damaged, or doesn't fit, and that led to the error."""
    cause = log_trouble(error)
    if cause is None:
        return None
    unfit = isinstance(cause, LogUnfit)
    return hold(
        "the stored state doesn't fit the model" if unfit else "damaged checkpoint", describe(cause), doubt=doubt
    )


def passed_over(
    workflow: Workflow, name: str, state: BaseModel, *, in_doubt: bool, fetch: Fetch | None = None
) -> Decision:
    """Leave a removed step without calling anything, by a checkpoint of its own: what comes next has a key of its own.

    in_doubt: a call that the step made may have taken effect, and nobody can look any more. fetch: see View.
    """
    if in_doubt:
        return hold(IN_DOUBT, {"type": "NoVerify", "message": f"this code has no step {name!r} any more"})
    step, kept = instead(workflow, name), states.sealed(workflow.state, states.store(state, fetch))
    new = partial(Decision, state=kept.state, text=kept.text, blobs=kept.blobs, kind="skip")
    if step is None:
        return new(move="complete", status=Status.COMPLETED)
    return new(move="advance", status=Status.QUEUED, target=step.target)


def back_off(view: View, failures: int, error: BaseException) -> float | Decision | None:
    """Seconds until the next try, None if there is none; or a hold, because the policy itself raised."""
    try:
        return view.step.retry.delay(failures, view.elapsed, error)
    except Exception as broken:  # noqa: BLE001  (a strategy is the user's own code)
        described = describe(broken)
        return hold(f"the retry policy raised {described['type']}", {**describe(error), "policy": described})


# ------------------------------------------------------------------------------------------------ the step returned
def returned(view: View, result: Returned) -> Decision:
    """Where a result leads; raises whatever is wrong with it."""
    outcome, update = _outcome(view, result)
    if isinstance(outcome, Fail):
        why = storable(str(outcome.why)[:4000])
        return Decision(move="fail", status=Status.FAILED, error={"type": "fail", "message": why})
    if isinstance(outcome, FanOut) and not outcome.branches:
        update |= nothing(outcome)
    whole = states.merged(view.workflow.state, view.before, result.copy, update, view.fetch)
    state, text, blobs = states.sealed(view.workflow.state, whole)
    shrinks = None if view.before_text is None else len(view.before_text.encode()) - len(text.encode())
    new = partial(Decision, state=state, text=text, shrinks=shrinks, blobs=blobs)
    if isinstance(outcome, FanOut) and outcome.branches:
        fan = fan_of(view.workflow, view.step, outcome, whole.state, view.fetch)
        return new(move="fan_out", status=Status.WAITING, fan=fan)
    if isinstance(outcome, Finish):
        return new(move="complete", status=Status.COMPLETED)
    if isinstance(outcome, WaitFor | WaitTogether):
        waits = waits_of(view.workflow, view.step, outcome)
        return new(move="wait", status=Status.WAITING, waits=waits)
    target = _next(view, outcome)
    if isinstance(outcome, Sleep):
        if target is None:
            raise UnknownStep(f"the last step {view.step.name!r} sleeps, but no step comes after it: name then=")
        return new(
            move="sleep",
            status=Status.SLEEPING,
            target=target.target,
            delay=outcome.seconds,
            until=outcome.until,
        )
    if target is None:
        return new(move="complete", status=Status.COMPLETED)
    return new(move="advance", status=Status.QUEUED, target=target.target)


def _outcome(view: View, result: Returned) -> tuple[Outcome | None, dict[str, Any]]:
    """Split what was returned into an outcome (None: go on) and an update of the state."""
    value = result.value
    if isinstance(value, Outcome):
        return value, _update(value.update)
    if value is None or value is result.copy:
        return None, {}
    if isinstance(value, BaseModel):
        return None, states.changes(view.workflow.state, value)
    if isinstance(value, Mapping):
        return None, _update(value)
    raise BadOutcome(
        f"the step returned a {type(value).__name__}; it may return None, a dict of changes, a "
        f"{view.workflow.state.__name__}, or goto, finish, fail, wait_for, sleep, fan_out and their like"
    )


def _update(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise BadOutcome(f"an update of the state must be a dict of changes, not a {type(given).__name__}")
    if not all(isinstance(name, str) for name in given):
        raise BadOutcome("the step returned a dict whose keys are not all field names")
    return dict(given)


def _next(view: View, outcome: Outcome | None) -> Step | None:
    if isinstance(outcome, Goto):
        return view.workflow.follow(view.step, outcome.step)
    if isinstance(outcome, Sleep | FanOut) and outcome.then is not None:
        return view.workflow.follow(view.step, outcome.then)
    return view.workflow.following(view.step)


# ------------------------------------------------------------------------------------------------- the step failed
def _failed(view: View, error: BaseException | None, described: dict[str, Any]) -> Decision:
    if error is not None and isinstance(error, view.step.permanent):
        return Decision(move="fail", status=Status.FAILED, error=described)
    if error is not None:
        unsure = view.step.in_doubt in ("hold", "verify")
        if (held := unreadable(error, doubt="begin" if unsure else "keep")) is not None:
            return held
    if isinstance(error, BadState | CallMismatch | BadOutcome):  # the step's own mistake, which a next try only repeats
        return hold("bad result", described)
    safe = error is not None and isinstance(error, (NotDone, *view.step.safe_errors))
    if view.step.in_doubt == "hold" and not safe:
        return hold(IN_DOUBT, described, doubt="begin")
    if view.step.in_doubt == "verify" and not safe:
        return Decision(move="doubt", status=Status.SLEEPING, delay=view.settling, error=described, doubt="begin")
    delay = back_off(view, view.failures + 1, error or TimeoutError(described["message"]))
    if isinstance(delay, Decision):
        return delay
    if delay is None:
        return _exhausted(view, described)
    return Decision(move="back_off", status=Status.SLEEPING, target=view.step.target, delay=delay, error=described)


def _exhausted(view: View, described: dict[str, Any]) -> Decision:
    if view.step.on_exhausted == "fail":
        return Decision(move="fail", status=Status.FAILED, error=described)
    return hold("retries ran out", described)
