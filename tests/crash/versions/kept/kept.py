"""Cases that go from a release of keepstep to another one and back: branches, a timer, a decision, effects and hooks.

It imports what the first release had, and nothing of these tests: that release's workers don't see them.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel

from keepstep import Approval, Call, Workflow, fan_out, sleep, start_child, wait_for


class State(BaseModel):
    numbers: list[int] = [0, 1, 2]
    doubled: list[int] = []
    child: dict[str, Any] | None = None
    receipt: int | None = None
    approval: Approval | None = None
    log: list[str] = []


class Small(BaseModel):
    n: int


def write(thread_id: str, step: str, key: str) -> None:
    """One line in one write; `tests.support.trace` reads it."""
    line = f"{thread_id}\t{step}\t{key}\t1\t{os.getpid()}\t0\n"
    fd = os.open(os.environ["KEEPSTEP_TEST_TRACE"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, line.encode())
    os.close(fd)


def note(call: Call) -> None:
    write(call.thread_id, call.step, call.key)


def act(state: State, call: Call) -> dict[str, Any]:
    note(call)
    return {"log": [*state.log, call.step], "receipt": call.once("book", lambda: 7)}


kept = Workflow("kept", state=State)
small = Workflow("small", state=Small)
small.step(lambda state, call: {"n": state.n + 1}, name="add")

kept.step(act, name="first")


@kept.step
def spread(state: State, call: Call) -> Any:
    note(call)
    return fan_out("double", over=state.numbers, into="doubled", max_running=1, update={"log": [*state.log, call.step]})


@kept.branch
def double(item: int, call: Call) -> Any:
    note(call)
    return wait_for("go", into="result") if item == 0 else item * 2


@kept.step
def nap(state: State, call: Call) -> Any:
    note(call)
    return sleep(timedelta(seconds=0.2), update={"log": [*state.log, call.step]})


@kept.step
def ask(state: State, call: Call) -> Any:
    note(call)
    return wait_for("approval", into="approval", payload=Approval)


@kept.step
def begin_child(state: State, call: Call) -> Any:
    note(call)
    return start_child(small, {"n": 1}, into="child")


@kept.step(transactional=True)
def pay(state: State, call: Call) -> dict[str, Any]:
    note(call)
    call.connection.execute(sa.text("insert into paid (thread_id) values (:id)"), {"id": call.thread_id})
    return {"log": [*state.log, call.step]}


kept.step(act, name="last")


@kept.on("completed")
def ended(case: Any, call: Any) -> None:
    write(case.thread_id, "ended", call.key)
