"""What `keepstep` says to scripts: one exit code for each kind of end, in one table."""

from __future__ import annotations

from enum import IntEnum

from keepstep.steps import errors


class Exit(IntEnum):
    """The exit codes, with the words that `keepstep --help` has for them."""

    def __new__(cls, code: int, meaning: str = "") -> Exit:
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    meaning: str

    OK = 0, "done"
    FAILED = 1, "refused, or something failed"
    USAGE = 2, "wrong usage: an option, a setting, a thread id, a JSON value, a payload that doesn't fit"
    NOT_FOUND = 3, "no such workflow, or no such case"
    CONFLICT = 4, "the case is there, but otherwise: started with another input, decided, ended, not held"
    UNREACHABLE = 5, "PostgreSQL or Redis can't be reached"
    OUTDATED = 6, "the database needs `keepstep db upgrade`"
    INTERRUPTED = 130, "interrupted by Ctrl-C"


TABLE: tuple[tuple[type[errors.KeepstepError], Exit], ...] = (
    (errors.BadThreadId, Exit.USAGE),
    (errors.BadState, Exit.USAGE),
    (errors.BadPayload, Exit.USAGE),
    (errors.BadSignal, Exit.USAGE),
    (errors.BadStart, Exit.USAGE),
    (errors.BadCursor, Exit.USAGE),
    (errors.BadSetting, Exit.USAGE),
    (errors.BadAudit, Exit.USAGE),
    (errors.BadFilter, Exit.USAGE),
    (errors.UnknownStep, Exit.USAGE),
    (errors.DefinitionError, Exit.USAGE),
    (errors.UnknownWorkflow, Exit.NOT_FOUND),
    (errors.UnknownCase, Exit.NOT_FOUND),
    (errors.UnknownCheckpoint, Exit.NOT_FOUND),
    (errors.WaitTimeout, Exit.FAILED),
    (errors.CaseError, Exit.CONFLICT),  # all others about one case: conflict, finished, decided, pending, not held
    (errors.DatabaseUnavailable, Exit.UNREACHABLE),
    (errors.BrokerUnavailable, Exit.UNREACHABLE),
    (errors.SchemaOutdated, Exit.OUTDATED),
)
"""Refusals and their codes; the first that fits counts, and what isn't here is FAILED."""


def code_for(error: errors.KeepstepError) -> Exit:
    """The exit code for a refusal."""
    return next((code for kind, code in TABLE if isinstance(error, kind)), Exit.FAILED)


def explain() -> str:
    """The table of codes, as --help prints it."""
    return "\n".join(["\b", "Exit codes:", *(f"  {code.value:>3}  {code.meaning}" for code in Exit)])
