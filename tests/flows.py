"""The workflows of the tests, loaded by the tests and by the workers that they start."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Approval, Call, Retry, Workflow, fail, finish, goto, sleep, wait_for
from tests.support import trace


class State(BaseModel):
    """seconds: how long the slow step takes. log: the steps that ran."""

    seconds: float = 0.0
    log: list[str] = []
    value: Any = None
    approval: Approval | None = None


def note(state: State, call: Call) -> dict[str, Any]:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    return {"log": [*state.log, call.step]}


def wait_until(seconds: float) -> None:
    """Take a while, as a slow outside call does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(min(0.05, seconds))


# ---------------------------------------------------------------------------------------- ten steps, the fifth is slow
ten = Workflow("ten", state=State, retention=timedelta(days=1))
quick = Workflow("quick", state=State, inline=timedelta(seconds=30))


def _plain(workflow: Workflow, name: str) -> None:
    @workflow.step(name=name)
    def plain(state: State, call: Call) -> dict[str, Any]:
        changes = note(state, call)
        if name == "s5":
            wait_until(state.seconds)
        return changes


for _i in range(1, 11):
    _plain(ten, f"s{_i}")
    _plain(quick, f"s{_i}")

# ------------------------------------------------------------------------------------------------- one kind of each
approve = Workflow("approve", state=State)


@approve.step
def ask(state: State, call: Call) -> Any:
    return wait_for(
        "approval", into="approval", payload=Approval, prompt={"n": len(state.log)}, update=note(state, call)
    )


@approve.step
def act(state: State, call: Call) -> Any:
    return note(state, call) if state.approval and state.approval.approved else goto("decline", **note(state, call))


@approve.step
def done(state: State, call: Call) -> Any:
    return finish(**note(state, call))


@approve.step
def decline(state: State, call: Call) -> Any:
    return note(state, call)


expiring = Workflow("expiring", state=State)


@expiring.step(next=["answered", "escalate"])
def ask_soon(state: State, call: Call) -> Any:
    return wait_for("approval", into="approval", timeout=state.seconds, on_timeout=state.value, then="answered")


@expiring.step
def answered(state: State, call: Call) -> Any:
    return finish(**note(state, call))


@expiring.step
def escalate(state: State, call: Call) -> Any:
    return note(state, call)


sleeper = Workflow("sleeper", state=State)


@sleeper.step
def before(state: State, call: Call) -> Any:
    return sleep(state.seconds, update=note(state, call))


@sleeper.step
def after(state: State, call: Call) -> Any:
    return note(state, call)


# --------------------------------------------------------------------------------------------------- what goes wrong
class Odd(BaseException):
    """What a foreign library's panic looks like."""


wrong = Workflow("wrong", state=State, retry=Retry(attempts=3, wait=wait_fixed(0.1)))


@wrong.step(permanent=[KeyError])
def misbehave(state: State, call: Call) -> Any:
    changes = note(state, call)
    match state.value:
        case "raise":
            raise OSError("the API is down")
        case "raise once" if call.attempt == 1:
            raise OSError("the API is down")
        case "permanent":
            raise KeyError("no such customer")
        case "fail":
            return fail("not eligible")
        case "exit":
            raise SystemExit(3)
        case "base":
            raise Odd("not even an Exception")
        case "cancelled":
            raise asyncio.CancelledError("leaked from a task")
        case "interrupt":
            raise KeyboardInterrupt
        case "nan":
            return {"value": float("nan")}
        case "object":
            return {"value": object()}
        case "surrogate":
            return {"value": "\ud800"}
        case "nul":
            return {"value": "a\0b"}
        case "large":
            return {"value": "x" * 20_000_000}
        case "type":
            return 7
        case "nowhere":
            return goto("nowhere")
        case "poison":
            os.kill(os.getpid(), 9)
        case "hang":
            wait_until(state.seconds)
        case "gil":
            ctypes.PyDLL(None).sleep(int(state.seconds))  # a C call that holds the GIL
    return changes


once = Workflow("once", state=State)


@once.step(retry=Retry(attempts=1), on_exhausted="fail")
def only(state: State, call: Call) -> Any:
    changes = note(state, call)
    wait_until(state.seconds)
    return changes


@once.on("completed", "failed", "held")
def tell(case: Any, call: Any) -> None:
    trace.write(case.thread_id, f"on_{call.event}:{case.status}", call.key, call.attempt)
    if case.state["value"] == "hook raises" and call.attempt == 1:
        raise OSError("the webhook is down")


hanging = Workflow("hanging", state=State, retry=Retry(attempts=2, wait=wait_fixed(0.1)))


@hanging.step(timeout=timedelta(seconds=1))
def hang(state: State, call: Call) -> Any:
    changes = note(state, call)
    wait_until(state.seconds)
    return changes


careful = Workflow("careful", state=State)


@careful.step(in_doubt="hold", safe_errors=[ConnectionRefusedError])
def pay(state: State, call: Call) -> Any:
    changes = note(state, call)
    if state.value == "safe" and call.attempt == 1:
        raise ConnectionRefusedError("nobody listens")
    if state.value == "raise":
        raise TimeoutError("the request was sent, no answer came")
    wait_until(state.seconds)
    return changes


listening = Workflow("listening", state=State)


@listening.step
def listen(state: State, call: Call) -> Any:
    changes = note(state, call)
    end = time.monotonic() + state.seconds
    while not call.cancelled() and time.monotonic() < end:
        wait_until(0.05)
    return {**changes, "value": "told" if call.cancelled() else "not told"}


@listening.step
def heard(state: State, call: Call) -> Any:
    return note(state, call)


coroutine = Workflow("coroutine", state=State)


@coroutine.step
async def wait_politely(state: State, call: Call) -> Any:
    return note(state, call)


# ------------------------------------------------------------------------------- forty trivial steps, for measurements
class Numbers(BaseModel):
    """blob: carried along. log: one small value a step."""

    blob: str = ""
    log: list[int] = []


forty = Workflow("forty", state=Numbers)


def _small(number: int) -> None:
    @forty.step(name=f"n{number}")
    def small(state: Numbers, call: Call) -> dict[str, Any]:
        return {"log": [*state.log, number % 10]}


for _i in range(1, 41):
    _small(_i)

ALL = [once, forty, ten, quick, approve, expiring, sleeper, wrong, hanging, careful, coroutine, listening]
