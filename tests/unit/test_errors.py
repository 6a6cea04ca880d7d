"""Every refusal is a class of its own, of one family, and travels between processes."""

import copy
import inspect
import pickle

import pytest

from keepstep.steps import errors
from keepstep.steps.errors import AlreadyDecided, BadState, CaseError, KeepstepError, NotDone, UnknownWorkflow

REFUSALS = [error for _, error in inspect.getmembers(errors, inspect.isclass) if error.__module__ == errors.__name__]


@pytest.mark.parametrize(
    "error",
    [
        KeepstepError("message"),
        BadState("message", path="/a/0"),
        UnknownWorkflow("a", ["b"]),
        CaseError("w", "t", "message"),
        errors.UnknownCase("w", "t"),
        AlreadyDecided("w", "t", "approval", {"approved": True}),
        errors.NotRetryable("w", "t", "message", status="queued"),
        errors.EffectsWouldRepeat("w", "t", "rewind", ["ask#0"]),
        errors.MovedOn("w", "t", "it is cancelled"),
        NotDone("message"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_refusal_can_be_pickled_and_copied_with_all_it_says(error: Exception) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is type(error)
        assert (str(other), other.__dict__) == (str(error), error.__dict__)


@pytest.mark.parametrize("error", REFUSALS)
def test_every_refusal_says_in_one_line_what_it_means(error: type[Exception]) -> None:
    assert error.__doc__
    assert issubclass(error, KeepstepError) or error is NotDone


def test_what_a_users_step_raises_is_not_of_keepsteps_family() -> None:
    assert not issubclass(NotDone, KeepstepError)
