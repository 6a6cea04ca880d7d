"""Whatever a step returns or raises, there is one decision about its case, and it is a legal move."""

import json
import math
import re
from collections.abc import Iterator
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
import tenacity
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, model_validator
from tenacity import stop_after_delay, wait_chain, wait_fixed, wait_random

from keepstep.checkpoint import codec
from keepstep.steps.approval import Approval
from keepstep.steps.decide import Decision, Raised, Result, Returned, TimedOut, View, decide, describe, exhausted
from keepstep.steps.errors import BadState, CallMismatch, NotDone
from keepstep.steps.moves import MOVES, Status
from keepstep.steps.outcome import Outcome, fail, finish, goto, sleep
from keepstep.steps.retry import Retry
from keepstep.steps.state import JSON
from keepstep.steps.waiting import wait_for
from keepstep.steps.workflow import Workflow


class State(BaseModel):
    n: int = 0
    value: Any = None
    approval: Approval | None = None


def nothing(state: State, call: Any) -> None:
    """A step."""


BEFORE: JSON = {"n": 1, "value": None, "approval": None}


def flow(**options: Any) -> Workflow:
    """Three steps; the options are the middle one's."""
    workflow = Workflow("flow", state=State)
    workflow.step(name="first")(nothing)
    workflow.step(name="middle", **options)(nothing)
    workflow.step(name="last", aliases=["former"])(nothing)
    return workflow


def view(step: str = "middle", *, failures: int = 0, elapsed: float = 0.0, **options: Any) -> View:
    workflow = flow(**options)
    return View(workflow=workflow, step=workflow.steps[step], before=dict(BEFORE), failures=failures, elapsed=elapsed)


def returned(value: Any) -> Returned:
    copy = State.model_validate(BEFORE)
    return Returned(value=copy if value is State else value, copy=copy)


def legal(decision: Decision) -> Decision:
    """The decision, if it is one that the store can carry out."""
    move = MOVES[decision.move]
    assert move.fenced
    assert decision.status in move.targets
    assert (decision.state is not None) == move.checkpoint
    assert (decision.target is not None) == (decision.move in ("advance", "sleep", "back_off"))
    assert (decision.delay is not None) == (decision.status == Status.SLEEPING)
    assert bool(decision.waits) == (decision.status == Status.WAITING)
    assert bool(decision.error) == (decision.move in ("fail", "hold", "back_off"))
    stored = codec.encode(decision.error)
    stored.encode()
    assert "\\u0000" not in stored
    assert len(stored) < 100_000
    assert isinstance(decision.error.get("message", ""), str)
    return decision


def of(result: Result, step: str = "middle", **options: Any) -> Decision:
    return legal(decide(view(step, **options), result))


# ------------------------------------------------------------------------------------------------ what is returned
@pytest.mark.parametrize(
    ("value", "step", "options", "move", "target"),
    [
        (None, "middle", {}, "advance", "last"),
        ({}, "middle", {}, "advance", "last"),
        ({"n": 2}, "first", {}, "advance", "middle"),
        ({"n": 2}, "last", {}, "complete", None),
        (State, "middle", {}, "advance", "last"),
        (State(n=5), "middle", {}, "advance", "last"),
        (MappingProxyType({"n": 2}), "middle", {}, "advance", "last"),
        (goto("first"), "middle", {}, "advance", "first"),
        (goto("middle", n=3), "middle", {}, "advance", "middle"),
        (goto("former"), "middle", {}, "advance", "last"),
        (goto("first"), "last", {}, "advance", "first"),
        (finish(n=9), "first", {}, "complete", None),
        (fail("not eligible"), "middle", {}, "fail", None),
        (sleep(5), "middle", {}, "sleep", "last"),
        (sleep(0, update={"n": 4}), "middle", {}, "sleep", "last"),
        (sleep(timedelta(days=30), then="first"), "last", {}, "sleep", "first"),
        (wait_for("approval"), "middle", {}, "wait", None),
        (wait_for("approval", then="first", timeout=5, on_timeout="middle"), "last", {}, "wait", None),
        (wait_for("approval"), "last", {}, "wait", None),
        # declared edges
        (None, "middle", {"next": ["first"]}, "advance", "first"),
        (None, "middle", {"next": ["former"]}, "advance", "last"),
        (None, "middle", {"next": ["first", "last"]}, "advance", "last"),
        (sleep(5), "middle", {"next": ["first"]}, "sleep", "first"),
        (goto("first"), "middle", {"next": ["first", "last"]}, "advance", "first"),
        (goto("last"), "middle", {"next": ["former"]}, "advance", "last"),
        (goto("former"), "middle", {"next": ["last"]}, "advance", "last"),
        (finish(), "middle", {"next": []}, "complete", None),
        (goto("last"), "middle", {"next": ["first"]}, "hold", None),
        (None, "middle", {"next": ["first", "middle"]}, "hold", None),
        (sleep(5, then="last"), "middle", {"next": ["first"]}, "hold", None),
        (wait_for("a", then="first", timeout=1, on_timeout="last"), "middle", {"next": ["first"]}, "hold", None),
        # what no step may return
        (goto("nowhere"), "middle", {}, "hold", None),
        (sleep(5), "last", {}, "hold", None),
        (sleep(5, then="nowhere"), "middle", {}, "hold", None),
        (wait_for("approval", into="nowhere"), "middle", {}, "hold", None),
        (wait_for("approval", timeout=5, on_timeout="nowhere"), "middle", {}, "hold", None),
        ({"unknown": 1}, "middle", {}, "hold", None),
        (finish(unknown=1), "middle", {}, "hold", None),
        ({"n": "many"}, "middle", {}, "hold", None),
        ({"value": math.nan}, "middle", {}, "hold", None),
        ({"value": object()}, "middle", {}, "hold", None),
        ({7: 1}, "middle", {}, "hold", None),
        (Approval(approved=True), "middle", {}, "hold", None),
        (7, "middle", {}, "hold", None),
    ],
)
def test_what_a_step_returns_decides_where_the_case_goes(
    value: Any, step: str, options: dict[str, Any], move: str, target: str | None
) -> None:
    decision = of(returned(value), step, **options)
    assert (decision.move, decision.target and decision.target.step) == (move, target)
    if move == "hold":
        assert decision.error["why"] == "bad result"


class Unusual:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("don't compare me")

    def __repr__(self) -> str:
        raise RuntimeError("don't show me")

    __hash__ = None  # type: ignore[assignment]


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None: ...


class Hostile(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        raise KeyError("no keys today")


BAD: list[Any] = [
    7,
    "text",
    b"bytes",
    [],
    ["n"],
    (1, 2),
    {1},
    True,
    object(),
    Unusual(),
    State,
    ValueError,
    ValueError("returned, not raised"),
    goto,
    finish,
    lambda: None,
    generator(),
    NotImplemented,
    ...,
    Hostile(n=1),
    {"value": Unusual()},
    {"value": generator()},
    {"value": State},
    {"n": Unusual()},
    {None: 1},
    {"": 1},
    {"\0": 1},
    {"\ud800": 1},
    {"value": "\ud800"},
    {"value": 10**5000},
    goto(7),  # type: ignore[arg-type]
    goto([]),  # type: ignore[arg-type]
    goto(None),  # type: ignore[arg-type]
    goto(lambda: None),  # type: ignore[arg-type]
    goto("\ud800\0"),
    sleep(1, update=["n"]),  # type: ignore[arg-type]
    sleep(1, update={7: 1}),  # type: ignore[dict-item]
    sleep(1, then=[]),  # type: ignore[arg-type]
    Outcome(update=5),  # type: ignore[arg-type]
    wait_for(""),
    wait_for("a\0b"),
    wait_for("\ud800"),
    wait_for("two words"),
    wait_for(None),  # type: ignore[arg-type]
    wait_for("x" * 101),
    wait_for("a", into=[]),  # type: ignore[arg-type]
    wait_for("a", into="a/b"),
    wait_for("a", payload=dict),  # type: ignore[type-var]
    wait_for("a", payload=Approval(approved=True)),  # type: ignore[arg-type]
    wait_for("a", prompt=object()),
    wait_for("a", prompt={"x": [math.nan]}),
    wait_for("a", prompt="\ud800"),
    wait_for("a", update={"unknown": 1}),
]


@pytest.mark.parametrize("value", BAD, ids=range(len(BAD)))
def test_a_bad_result_holds_the_case_and_never_raises(value: Any) -> None:
    given = Returned(value=value, copy=State.model_validate(BEFORE))
    decision = legal(decide(view(), given))
    assert (decision.move, decision.error["why"]) == ("hold", "bad result")
    assert decision.error["message"]


def test_a_coroutine_that_nobody_awaited_is_a_bad_result() -> None:
    value = coroutine()
    assert of(returned(value)).error["message"].startswith("the step returned a coroutine")
    value.close()


@settings(max_examples=25, deadline=None, database=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.binary(max_size=2),
        lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["n", "value", "x"]), v, max_size=3),
    )
)
def test_any_value_leads_to_a_legal_decision(value: Any) -> None:
    of(returned(value))


def test_the_path_of_what_doesnt_fit_is_in_the_error() -> None:
    assert of(returned({"value": {"a/b": [1, math.nan]}})).error["path"] == "/value/a~1b/1"
    assert of(returned(wait_for("a", prompt={"x": [math.nan]}))).error["path"] == "/x/0"


def test_changes_in_place_and_returned_ones_are_both_in_the_new_state() -> None:
    copy = State.model_validate(BEFORE)
    copy.value = "in place"
    decision = legal(decide(view(), Returned(value={"n": 5}, copy=copy)))
    assert decision.state == {"n": 5, "value": "in place", "approval": None}
    both = legal(decide(view(), Returned(value={"value": "returned"}, copy=copy)))
    assert (both.move, both.error["type"]) == ("hold", "BadOutcome")


def test_a_failed_case_keeps_the_state_of_its_last_checkpoint_and_says_why() -> None:
    decision = of(returned(fail("not eligible")))
    assert (decision.status, decision.state, decision.error["message"]) == (Status.FAILED, None, "not eligible")


@pytest.mark.parametrize("why", ["a\0b", "\ud800", "x" * 10**6, None, 7, {"a": object()}, ["b"], Exception("e")])
def test_the_reason_of_a_failure_can_always_be_stored(why: Any) -> None:
    assert of(returned(fail(why))).move == "fail"


def test_a_wait_carries_all_that_the_store_needs() -> None:
    wait = of(
        returned(
            wait_for(
                "approval",
                into="approval",
                payload=Approval,
                prompt={"score": 5},
                timeout=timedelta(days=14),
                on_timeout="first",
                update={"n": 7},
            )
        )
    ).waits[0]
    assert wait is not None
    assert wait.then is not None
    assert wait.on_timeout is not None
    assert (wait.name, wait.into, wait.then.step, wait.timeout) == ("approval", "approval", "last", 14 * 86400)
    assert (wait.on_timeout.step, wait.prompt) == ("first", {"score": 5})
    assert wait.schema is not None
    assert set(wait.schema["properties"]) == {"approved", "actor", "note"}


def test_a_wait_after_the_last_step_ends_the_case() -> None:
    wait = of(returned(wait_for("approval")), "last").waits[0]
    assert wait is not None
    assert wait.then is None


class NotANumber(BaseModel):
    limit: float = math.nan


def test_a_payload_model_whose_schema_is_no_json_is_a_bad_result() -> None:
    assert of(returned(wait_for("a", payload=NotANumber))).error["path"] == "/properties/limit/default"


class Breaking(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int = 0

    @model_validator(mode="after")
    def _check(self) -> "Breaking":
        if self.n:
            raise LookupError("the validator's own bug")
        return self


def test_a_validator_that_breaks_holds_the_case() -> None:
    workflow = Workflow("breaking", state=Breaking)
    workflow.step(name="only")(nothing)
    given = View(workflow=workflow, step=workflow.first, before={"n": 0})
    decision = legal(decide(given, Returned(value={"n": 1}, copy=Breaking())))
    assert (decision.move, decision.error["type"]) == ("hold", "BadState")
    assert "LookupError: the validator's own bug" in decision.error["message"]


# ------------------------------------------------------------------------------------------------- what is raised
class Declined(Exception):
    pass


class Refused(ConnectionError):
    pass


ONE_MORE = {"retry": Retry(attempts=3, wait=wait_fixed(7))}
SPENT = {"failures": 2, **ONE_MORE}


@pytest.mark.parametrize(
    ("error", "options", "move"),
    [
        (OSError("down"), ONE_MORE, "back_off"),
        (OSError("down"), SPENT, "hold"),
        (OSError("down"), {**SPENT, "on_exhausted": "fail"}, "fail"),
        (Declined(), {**ONE_MORE, "permanent": [Declined]}, "fail"),
        (Declined(), {**SPENT, "permanent": [Declined]}, "fail"),
        (Declined(), {**ONE_MORE, "permanent": [Exception]}, "fail"),
        (OSError(), {**ONE_MORE, "permanent": [Declined]}, "back_off"),
        (OSError(), {**ONE_MORE, "in_doubt": "hold"}, "hold"),
        (NotDone(), {**ONE_MORE, "in_doubt": "hold"}, "back_off"),
        (Refused(), {**ONE_MORE, "in_doubt": "hold", "safe_errors": [ConnectionError]}, "back_off"),
        (OSError(), {**ONE_MORE, "in_doubt": "hold", "safe_errors": [Refused]}, "hold"),
        (Refused(), {**SPENT, "in_doubt": "hold", "safe_errors": [Refused]}, "hold"),
        (Refused(), {**SPENT, "in_doubt": "hold", "safe_errors": [Refused], "on_exhausted": "fail"}, "fail"),
        (Declined(), {**ONE_MORE, "in_doubt": "hold", "permanent": [Declined]}, "fail"),
        (NotDone(), SPENT, "hold"),
        (SystemExit(3), ONE_MORE, "back_off"),
        (KeyboardInterrupt(), ONE_MORE, "back_off"),
        (ExceptionGroup("two", [OSError(), ValueError()]), ONE_MORE, "back_off"),
        (StopIteration(5), ONE_MORE, "back_off"),
        (RecursionError(), ONE_MORE, "back_off"),
    ],
)
def test_what_a_step_raises_decides_by_its_policy(error: BaseException, options: dict[str, Any], move: str) -> None:
    decision = of(Raised(error=error), **options)
    assert decision.move == move
    assert decision.error["type"] == type(error).__name__
    if move == "back_off":
        assert decision.target is not None
        assert (decision.target.step, decision.delay) == ("middle", 7.0)


@pytest.mark.parametrize(
    ("options", "move"),
    [
        (ONE_MORE, "back_off"),
        (SPENT, "hold"),
        ({**SPENT, "on_exhausted": "fail"}, "fail"),
        ({**ONE_MORE, "in_doubt": "hold"}, "hold"),
    ],
)
def test_a_timeout_counts_as_a_failure_and_leaves_the_call_in_doubt(options: dict[str, Any], move: str) -> None:
    decision = of(TimedOut(timeout=30), **options)
    assert (decision.move, decision.error["type"]) == (move, "Timeout")
    assert "30 s" in decision.error["message"]


def test_why_a_case_is_held_tells_doubt_from_exhaustion() -> None:
    assert of(Raised(error=OSError()), **ONE_MORE, in_doubt="hold").error["why"].startswith("in doubt")
    assert of(Raised(error=OSError()), **SPENT).error["why"] == "retries ran out"


@pytest.mark.parametrize(
    ("retry", "failures", "elapsed", "low", "high"),
    [
        (Retry(attempts=9, wait=wait_fixed(1), stop=stop_after_delay(60)), 0, 59.0, 1, 1),
        (Retry(attempts=9, wait=wait_fixed(1), stop=stop_after_delay(60)), 0, 60.0, None, None),
        (Retry(attempts=9, wait=wait_chain(wait_fixed(1), wait_fixed(5))), 0, 0, 1, 1),
        (Retry(attempts=9, wait=wait_chain(wait_fixed(1), wait_fixed(5))), 3, 0, 5, 5),
        (Retry(attempts=9, wait=wait_random(2, 3)), 4, 0, 2, 3),
        (Retry(attempts=9, wait=tenacity.wait_exception(lambda e: len(str(e)))), 0, 0, 4, 4),
    ],
)
def test_the_strategies_of_tenacity_say_how_long(
    retry: Retry, failures: int, elapsed: float, low: float | None, high: float | None
) -> None:
    decision = of(Raised(error=OSError("four")), failures=failures, elapsed=elapsed, retry=retry)
    if low is None or high is None:
        assert decision.move == "hold"
    else:
        assert decision.delay is not None
        assert low <= decision.delay <= high


def test_a_strategy_that_looks_at_the_error_sees_a_timeout_too() -> None:
    retry = Retry(wait=tenacity.wait_exception(lambda e: 9 if isinstance(e, TimeoutError) else 1))
    assert of(TimedOut(timeout=1), retry=retry).delay == 9


def test_a_retry_policy_that_breaks_holds_the_case_with_both_errors() -> None:
    decision = of(Raised(error=OSError("down")), retry=Retry(wait=lambda _: 1 / 0))
    assert (decision.move, decision.error["why"]) == ("hold", "the retry policy raised ZeroDivisionError")
    assert (decision.error["type"], decision.error["policy"]["type"]) == ("OSError", "ZeroDivisionError")


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Crooked(SyntaxError):
    text = 5  # type: ignore[assignment]
    lineno = "x"  # type: ignore[assignment]
    filename = object()  # type: ignore[assignment]


def chained() -> BaseException:
    first, second = OSError("a\0"), ValueError("\ud800")
    first.__cause__, second.__context__ = second, first
    return first


def noted() -> BaseException:
    error = OSError()
    error.__notes__ = 5  # type: ignore[assignment]
    return error


ERRORS: list[BaseException] = [
    Speechless(),
    Crooked("crooked", ("f", 1, 2, b"no text")),  # type: ignore[arg-type]
    SyntaxError("crooked", ("f", 1, 2, 7)),  # type: ignore[arg-type]
    ExceptionGroup("group", [ExceptionGroup("deeper", [Speechless()] * 50)] * 50),
    BaseExceptionGroup("base", [SystemExit(), KeyboardInterrupt()]),
    ValueError("a\0b\ud800c"),
    ValueError("x" * 5_000_000),
    ValueError("\0" * 10_000),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    OSError(2, "no such file", "\udcff"),
    KeyError(),
    KeyError(Speechless),
    type("Näme", (Exception,), {})("local"),
    chained(),
    noted(),
    GeneratorExit(),
    MemoryError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("failures", [0, 2])
def test_any_error_leads_to_a_legal_decision_that_can_be_stored(error: BaseException, failures: int) -> None:
    decision = of(Raised(error=error), failures=failures, retry=Retry(attempts=3, wait=wait_fixed(7)))
    assert decision.move == ("back_off" if failures == 0 else "hold")
    assert json.loads(codec.encode(decision.error))["type"] == type(error).__name__


MISMATCH = CallMismatch("w", "A", "pay", "name", before="1", now="2", differing=[])


@pytest.mark.parametrize("error", [BadState("no JSON", path="/a\0\ud800"), MISMATCH])
def test_what_a_recorded_call_refuses_is_held_at_once(error: BaseException) -> None:
    decision = of(Raised(error=error), retry=Retry(attempts=3, wait=wait_fixed(7)))
    assert (decision.move, decision.error["why"]) == ("hold", "bad result")
    assert json.loads(codec.encode(decision.error))["type"] == type(error).__name__


def test_an_errors_traceback_ends_where_it_was_raised() -> None:
    def dig(depth: int) -> None:
        if depth == 0:
            raise OSError("at the bottom")
        dig(depth - 1)

    with pytest.raises(OSError, match="bottom") as caught:
        dig(200)
    described = describe(caught.value)
    assert described["message"] == "at the bottom"
    assert re.search(r"in dig\n\s+raise OSError.*\n(.*\n)?OSError: at the bottom\n$", described["traceback"])
    assert len(described["traceback"]) <= 8000


# --------------------------------------------------------------------------------------------- used up before a call
@pytest.mark.parametrize(("failures", "move"), [(0, None), (2, None), (3, "hold"), (99, "hold")])
def test_a_step_whose_tries_are_used_up_is_not_called_once_more(failures: int, move: str | None) -> None:
    decision = exhausted(view(failures=failures, retry=Retry(attempts=3)))
    assert (decision and legal(decision).move) == move
    failed = exhausted(view(failures=failures, retry=Retry(attempts=3), on_exhausted="fail"))
    assert (failed and legal(failed).move) == (move and "fail")
