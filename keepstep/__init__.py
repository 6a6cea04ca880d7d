"""keepstep: durable workflow steps on the Celery, Redis and PostgreSQL that you already run."""

from typing import TYPE_CHECKING

from keepstep._version import __version__
from keepstep.steps import errors
from keepstep.steps.approval import Approval
from keepstep.steps.branching import fan_out, start_child
from keepstep.steps.call import Call
from keepstep.steps.errors import (
    AlreadyDecided,
    BadConnection,
    BadPayload,
    BadStart,
    BadState,
    BadThreadId,
    BrokerUnavailable,
    CallMismatch,
    CaseConflict,
    CaseExists,
    CaseFinished,
    DatabaseUnavailable,
    DefinitionError,
    EffectsWouldRepeat,
    IllegalMove,
    KeepstepError,
    LeaseLost,
    MovedOn,
    NotDone,
    StaleDecision,
    StartPending,
    UnknownCase,
    UnknownWorkflow,
    WaitTimeout,
)
from keepstep.steps.log import Log
from keepstep.steps.outcome import Outcome, StepResult, fail, finish, goto, sleep, sleep_until
from keepstep.steps.results import BranchError, BranchResult
from keepstep.steps.retry import Retry
from keepstep.steps.secret import Secret
from keepstep.steps.verdict import Done, Unknown
from keepstep.steps.waiting import receive, wait_all, wait_any, wait_for
from keepstep.steps.workflow import Workflow

if TYPE_CHECKING:
    from keepstep.workers.client import Client


def __getattr__(name: str) -> object:
    """Import the client when it is first asked for: a module that only defines workflows needs no database driver."""
    if name == "Client":
        from keepstep.workers.client import Client

        return Client
    raise AttributeError(f"module 'keepstep' has no attribute {name!r}")


__all__ = [
    "AlreadyDecided",
    "Approval",
    "BadConnection",
    "BadPayload",
    "BadStart",
    "BadState",
    "BadThreadId",
    "BranchError",
    "BranchResult",
    "BrokerUnavailable",
    "Call",
    "CallMismatch",
    "CaseConflict",
    "CaseExists",
    "CaseFinished",
    "Client",
    "DatabaseUnavailable",
    "DefinitionError",
    "Done",
    "EffectsWouldRepeat",
    "IllegalMove",
    "KeepstepError",
    "LeaseLost",
    "Log",
    "MovedOn",
    "NotDone",
    "Outcome",
    "Retry",
    "Secret",
    "StaleDecision",
    "StartPending",
    "StepResult",
    "Unknown",
    "UnknownCase",
    "UnknownWorkflow",
    "WaitTimeout",
    "Workflow",
    "__version__",
    "errors",
    "fail",
    "fan_out",
    "finish",
    "goto",
    "receive",
    "sleep",
    "sleep_until",
    "start_child",
    "wait_all",
    "wait_any",
    "wait_for",
]
