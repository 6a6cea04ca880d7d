"""Workflows as users write them, for the tests of `keepstep.testing`; loaded by its runner, and by its workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import (
    Approval,
    Call,
    Done,
    NotDone,
    Retry,
    Workflow,
    fan_out,
    finish,
    goto,
    sleep,
    start_child,
    wait_for,
)
from tests.support import outside


class State(BaseModel):
    """log: the steps whose result was kept. receipt: what the last call returned, another each time."""

    log: list[str] = []
    receipt: str = ""
    answer: Any = None
    approval: Approval | None = None


def effect(state: State, call: Call) -> dict[str, Any]:
    """What most steps do: one call outside, under its key."""
    receipt = outside.make(call.thread_id, call.step, call.key)
    return {"log": [*state.log, call.step], "receipt": receipt}


def keyless(state: State, call: Call) -> dict[str, Any]:
    """The mistake: an effect that nobody can recognise when it is made again."""
    outside.make(call.thread_id, call.step, None)
    return {"log": [*state.log, call.step]}


def is_made(state: State, call: Call) -> Any:
    return Done({"log": [*state.log, call.step], "receipt": "found"}) if outside.is_made(call.key) else NotDone


# ------------------------------------------------------------------------------------- safe, whatever is killed where
safe = Workflow("safe", state=State)


@safe.step(retry=Retry(attempts=3, wait=wait_fixed(45)))
def try_again(state: State, call: Call) -> Any:
    if call.attempt == 1:
        raise OSError("the API is down")
    return effect(state, call)


@safe.step
def charge(state: State, call: Call) -> Any:
    for name in ("charge", "mail"):
        call.once(name, outside.make, call.thread_id, name, call.key_of(name))
    return {"log": [*state.log, call.step]}


@safe.step(transactional=True)
def book(state: State, call: Call) -> Any:
    outside.write(call.connection, call.thread_id, call.step, call.key)
    return {"log": [*state.log, call.step]}


@safe.step
def ask(state: State, call: Call) -> Any:
    return wait_for("answer", into="answer", update=effect(state, call))


@safe.step
def rest(state: State, call: Call) -> Any:
    return sleep(timedelta(days=2), update=effect(state, call))


@safe.step(in_doubt=is_made)
def transfer(state: State, call: Call) -> Any:
    return effect(state, call)


@safe.step(in_doubt="hold")
def call_customer(state: State, call: Call) -> Any:
    return effect(state, call)


# ------------------------------------------------------------------------------------------------ not safe, in two ways
unsafe = Workflow("unsafe", state=State)
unsafe.step(name="look_up")(lambda state, call: {"log": [*state.log, call.step]})
unsafe.step(name="charge")(keyless)
unsafe.step(name="notify")(effect)

losing = Workflow("losing", state=State)


@losing.step
def count(state: State, call: Call) -> Any:
    """Depends on how often it was called: its result under a crash is another one."""
    return {"log": [*state.log, f"attempt {call.attempt}"], "receipt": call.key and ""}


# ---------------------------------------------------------------------------------- branches of each kind, and a child
fanned = Workflow("fanned", state=State)
small = Workflow("small", state=State)


@fanned.step
def split(state: State, call: Call) -> Any:
    ways: dict[str, Any] = {"one": ("leaf", 1), "two": ("leaf", 2), "asked": ("asks", 3), "nested": ("nests", 4)}
    return fan_out({**ways, "child": start_child(small)}, into="answer", max_running=4, update=effect(state, call))


@fanned.step
def close_up(state: State, call: Call) -> Any:
    return effect(state, call)


@fanned.branch
def leaf(item: int, call: Call) -> int:
    outside.make(call.thread_id, call.step, call.key)
    return item


@fanned.branch(transactional=True)
def asks(item: int, call: Call) -> Any:
    outside.write(call.connection, call.thread_id, call.step, call.key)
    return wait_for("answer", into="result")


@fanned.branch
def nests(item: int, call: Call) -> Any:
    return fan_out("leaf", over=[item, item + 1], into="result")


@small.step
def first(state: State, call: Call) -> Any:
    return effect(state, call)


@small.step(in_doubt="hold")
def second(state: State, call: Call) -> Any:
    return effect(state, call)


spoilt = Workflow("spoilt", state=State)


@spoilt.step
def spread(state: State, call: Call) -> Any:
    return fan_out("spoil", over=[1, 2], into="answer")


@spoilt.branch
def spoil(item: int, call: Call) -> int:
    outside.make(call.thread_id, call.step, None)
    return item


# --------------------------------------------------------------------------------------- two weeks for a decision
claims = Workflow("claims", state=State, retention=timedelta(days=30))


@claims.step(retry=Retry(attempts=4, wait=wait_fixed(900)))
def pull(state: State, call: Call) -> Any:
    return effect(state, call)


@claims.step
def decide(state: State, call: Call) -> Any:
    return wait_for(
        "approval",
        into="approval",
        payload=Approval,
        timeout=timedelta(days=14),
        on_timeout="escalate",
        remind_every=timedelta(days=3),
    )


@claims.step
def pay(state: State, call: Call) -> Any:
    if state.approval and not state.approval.approved:
        return goto("close")
    return finish(**effect(state, call))


@claims.step
def escalate(state: State, call: Call) -> Any:
    return sleep(timedelta(hours=1), update={"log": [*state.log, call.step]})


@claims.step
def close(state: State, call: Call) -> Any:
    return {"log": [*state.log, call.step]}


reminders: list[str] = []


@claims.on("remind", "completed")
def tell(case: Any, call: Any) -> None:
    reminders.append(f"{call.event} {call.wait or case.status}")
