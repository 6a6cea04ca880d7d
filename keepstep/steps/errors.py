"""Every refusal keepstep can make, each a class of its own.

A message says what happened (with workflow, thread id, step and seq where they are known), why it is refused,
and what to do next.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterable
from typing import Any


class KeepstepError(Exception):
    """The base of every error that keepstep raises on purpose. It can be pickled, whatever its arguments were."""

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


# ------------------------------------------------------------------ definitions: raised while the module is imported
class DefinitionError(KeepstepError):
    """A workflow is declared wrongly; the message names file and line."""


class UnknownWorkflow(KeepstepError):
    """No loaded module defines a workflow of this name."""

    def __init__(self, name: str, known: Iterable[str]):
        names = ", ".join(sorted(known)) or "none"
        super().__init__(
            f"unknown workflow {name!r}; loaded: {names}. "
            "Name the module that defines it in KEEPSTEP_WORKFLOWS or with --workflows."
        )
        self.name = name


class UnknownStep(KeepstepError):
    """A step is named that the workflow doesn't have."""


# ------------------------------------------------------------------------------- what a caller or a step handed over
class BadThreadId(KeepstepError):
    """A thread id is empty, too long, or not storable text."""


class BadState(KeepstepError):
    """A state doesn't fit its model or can't be JSON; `path` is a JSON pointer such as `/documents/3/name`."""

    def __init__(self, message: str, *, path: str = ""):
        super().__init__(message)
        self.path = path


class UpcastFailed(BadState):
    """Stored JSON of an older schema version can't be brought to the present one; the message names both versions."""

    def __init__(self, what: str, version: int, to: int, why: str, *, path: str = ""):
        at = f" at {path}" if path else ""
        super().__init__(f"{what} can't be brought from version {version} to {to}{at}: {why}", path=path)
        self.version, self.to = version, to


class LogUnfit(BadState):
    """An item of a state's `Log` doesn't fit its type any more, as the step finds that reads it."""


class StateTooLarge(BadState):
    """A state is larger than `max_state_bytes`."""


class BadStart(KeepstepError):
    """A start's tags, delay, priority, queue or `if_exists` can't be what was given."""


class BadCursor(KeepstepError):
    """A list's cursor isn't one that a list gave."""


class BadConnection(KeepstepError):
    """`connection=` is nothing in whose transaction a case can be started."""

    def __init__(self, given: object):
        kind = f"{type(given).__module__}.{type(given).__qualname__}"
        super().__init__(
            f"connection= takes a SQLAlchemy Connection or Session on PostgreSQL, or a connection of psycopg2 or "
            f"psycopg, not a {kind}. With an AsyncSession: await session.run_sync(lambda s: cases.start(..., "
            "connection=s))."
        )


class BadOutcome(KeepstepError):
    """A step returned something that is neither changes, nor a state, nor an outcome."""


class BadSignal(KeepstepError):
    """A signal's name, actor or dedupe key can't be one."""


class BadPayload(KeepstepError):
    """A signal's payload doesn't fit what the case is waiting for."""


# ------------------------------------------------------------------------------------------------- about one case
class CaseError(KeepstepError):
    """A refusal about one case."""

    def __init__(self, workflow: str, thread_id: str, message: str):
        super().__init__(f"{workflow}/{thread_id}: {message}")
        self.workflow, self.thread_id = workflow, thread_id


class UnknownCase(CaseError):
    """There is no case with this thread id."""

    def __init__(self, workflow: str, thread_id: str):
        super().__init__(workflow, thread_id, "no such case. Check the thread id, or start it first.")


class CaseErased(UnknownCase):
    """The case was erased, as the law wanted it; all that is left says when (`at`) and by whom (`by`)."""

    def __init__(self, workflow: str, thread_id: str, at: object, by: str | None):
        CaseError.__init__(self, workflow, thread_id, f"it was erased at {at} by {by or 'nobody who said so'}.")
        self.at, self.by = at, by


class CaseConflict(CaseError):
    """The thread id is taken by a case that was started with another input."""


class CaseExists(CaseError):
    """The thread id is taken, and the start wanted a new case."""


class CaseFinished(CaseError):
    """The case has ended; it takes no signal any more."""


class StartPending(CaseError):
    """Another transaction is starting the same thread id and hasn't committed yet."""


class UnknownCheckpoint(CaseError):
    """The case has no checkpoint of this number."""

    def __init__(self, workflow: str, thread_id: str, seq: int, latest: int):
        super().__init__(workflow, thread_id, f"it has no checkpoint {seq}; the latest is {latest}.")


class AlreadyDecided(CaseError):
    """Another decision of this name came first; `first` is it."""

    def __init__(self, workflow: str, thread_id: str, name: str, first: object, *, hidden: bool = False):
        shown = "by something that may hold a secret" if hidden else repr(first)
        super().__init__(workflow, thread_id, f"{name!r} was already decided: {shown}. The first decision stands.")
        self.first = first


class BadAudit(KeepstepError):
    """An actor's name or a reason can't be stored."""


class BadFilter(KeepstepError):
    """The filter of a verb for many cases names none, or names a status that the verb never moves."""


class IllegalMove(CaseError):
    """The case's status doesn't allow what was asked. Each verb has a subclass of its own; `status` is where it is."""

    def __init__(self, workflow: str, thread_id: str, message: str, *, status: str = ""):
        super().__init__(workflow, thread_id, message)
        self.status = status


class NotCancellable(IllegalMove):
    """The case has ended, so there is nothing to cancel."""


class NotPausable(IllegalMove):
    """The case has ended, or is paused already."""


class NotResumable(IllegalMove):
    """The case isn't paused."""


class NotRetryable(IllegalMove):
    """The case is neither held nor failed, or it failed without a step to retry."""


class NotSkippable(IllegalMove):
    """The case has no step that could be skipped."""


class NotRewindable(IllegalMove):
    """There is no such checkpoint to go back to, or nothing comes after it."""


class NotRestartable(IllegalMove):
    """The case can't be restarted."""


class NotForkable(IllegalMove):
    """There is no such checkpoint to fork from, or nothing comes after it."""


class NotErasable(IllegalMove):
    """The case, or a child of it, hasn't ended: what it still writes would be back at once."""


class EffectsWouldRepeat(CaseError):
    """Steps that ran already would run again under new keys; `effects` lists them as `step#seq`."""

    def __init__(self, workflow: str, thread_id: str, verb: str, effects: Iterable[str]):
        self.effects = list(effects)
        super().__init__(
            workflow,
            thread_id,
            f"{verb} makes new idempotency keys, so what these steps did outside may be done again: "
            f"{', '.join(self.effects)}. If that is right, say so: repeat_effects=True, or --repeat-effects.",
        )


class MovedOn(CaseError):
    """The case has gone on since whoever steers it looked: what they meant may be done, or be another step by now."""

    def __init__(self, workflow: str, thread_id: str, since: str):
        super().__init__(workflow, thread_id, f"it has moved on since you looked: {since}. Look again, then decide.")


class NewerState(CaseError):
    """The case's state was written by newer code than is loaded here."""


class StaleDecision(CaseError):
    """The decision is about something else than what is being asked now."""


class CallMismatch(CaseError):
    """A recorded call has other arguments than the call of this name that was begun before.

    before, now: the digests. differing: positions and names of the arguments that differ.
    """

    def __init__(
        self, workflow: str, thread_id: str, at: str, name: str, *, before: str, now: str, differing: Iterable[str]
    ):
        self.name, self.before, self.now, self.differing = name, before, now, list(differing)
        which = f" (different: {', '.join(self.differing)})" if self.differing else ""
        super().__init__(
            workflow,
            thread_id,
            f"{at} calls {name!r} with other arguments than before{which}: sha256 {before[:12]} then, {now[:12]} now. "
            "A name stands for one call, so it was not called. Give another call another name; give the same call the "
            "same arguments on each attempt: from the state, not from a clock or a random number.",
        )


class LeaseLost(CaseError):
    """The attempt was taken away while its step ran; nothing of it will be taken. Let it pass through."""


class WaitTimeout(CaseError):
    """`wait` ended before the case did; the case itself goes on."""


class CheckpointDamaged(KeepstepError):
    """A case's checkpoints can't be put together: a gap, a missing snapshot, or a delta that doesn't apply.

    path: where in the state, as a JSON pointer, if it is one place.
    """

    def __init__(self, message: str, *, path: str = ""):
        super().__init__(message)
        self.path = path


class LogDamaged(CheckpointDamaged):
    """What holds the items of a state's `Log` is missing, or isn't what it was."""


# ---------------------------------------------------------------------------------------------------- surroundings
class DatabaseUnavailable(KeepstepError):
    """PostgreSQL can't be reached, or can't do this now. lost: a connection is gone, not merely a statement refused."""

    def __init__(self, message: str, *, lost: bool = True):
        super().__init__(message)
        self.lost = lost


class BrokerUnavailable(KeepstepError):
    """Redis can't be reached. Cases are safe in PostgreSQL and go on when it is back."""


class SchemaOutdated(KeepstepError):
    """The database's tables are older or newer than this keepstep; the message says which command to run."""


class BadSetting(KeepstepError):
    """A setting is missing or wrong; the message names the variable."""


# ---------------------------------------------------------------- raised by users' steps and understood by the engine
class NotDone(Exception):
    """Raise it in a step: the outside call certainly did not take effect, so trying again is safe."""
