"""What becomes of a case whose call is in doubt, once its step's `verify` has looked. Pure, as decide.py is."""

from __future__ import annotations

from keepstep.steps.decide import (
    IN_DOUBT,
    Decision,
    Raised,
    Result,
    Returned,
    View,
    back_off,
    describe,
    hold,
    returned,
    unreadable,
)
from keepstep.steps.errors import BadOutcome, NotDone
from keepstep.steps.moves import Status
from keepstep.steps.verdict import Done, Unknown


def verified(view: View, result: Result) -> Decision:
    """Say what becomes of the case. Never raises: a verification that fails is tried again, and then a person is asked.

    Its tries are counted apart from the step's, by the same retry policy.
    """
    if isinstance(result, Returned):
        return _told(view, result)
    if isinstance(result, Raised) and isinstance(result.error, NotDone):
        return _not_done(view)
    error: BaseException = result.error if isinstance(result, Raised) else TimeoutError("verify took too long")
    if (held := unreadable(error)) is not None:
        return held
    described = describe(error)
    delay = back_off(view, view.verifications + 1, error)
    if isinstance(delay, Decision):
        return delay
    if delay is None:
        return hold("in doubt: verify failed too often", described, doubt="keep")
    return Decision(
        move="back_off",
        status=Status.SLEEPING,
        delay=delay,
        error={**described, "why": "verify raised"},
        doubt="verify",
    )


def _told(view: View, result: Returned) -> Decision:
    said = result.value
    if isinstance(said, Done) or said is Done:
        said = said.result if isinstance(said, Done) else None
        try:
            return returned(view, Returned(value=said, copy=result.copy))
        except Exception as error:  # noqa: BLE001  (the user's models and values may raise anything)
            return unreadable(error) or hold("bad result of verify", describe(error), doubt="keep")
    if isinstance(said, NotDone) or said is NotDone:
        return _not_done(view)
    if isinstance(said, Unknown) or said is Unknown:
        unknown = {"type": "Unknown", "message": "verify can't tell whether the call took effect"}
        return hold(IN_DOUBT, unknown, doubt="keep")
    wrong = BadOutcome(f"verify must return Done(...), NotDone or Unknown, not a {type(said).__name__}")
    return hold("bad result of verify", describe(wrong), doubt="keep")


def _not_done(view: View) -> Decision:
    """The call certainly took no effect: the step itself is to be called again, if it has a try left."""
    error = {"type": "NotDone", "message": "verify says that the call took no effect"}
    delay = back_off(view, view.failures, NotDone()) if view.failures else 0.0
    if isinstance(delay, Decision):
        return delay
    if delay is None:
        if view.step.on_exhausted == "fail":
            return Decision(move="fail", status=Status.FAILED, error=error)
        return hold("retries ran out", error, doubt="clear")
    return Decision(move="back_off", status=Status.SLEEPING, delay=delay, error=error, doubt="clear")
