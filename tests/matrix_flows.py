"""One workflow for each kind of step, all of the same shape: before (seq 0), the step itself (seq 1), after."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Call, Done, NotDone, Retry, Workflow, fan_out, sleep, wait_for
from tests.support import outside

MIDDLE, LEAVES = "middle", 3


class State(BaseModel):
    """log: the steps whose result was kept. receipt: what the last call returned."""

    log: list[str] = []
    receipt: str = ""
    answer: Any = None


def effect(state: State, call: Call) -> dict[str, Any]:
    receipt = outside.make(call.thread_id, call.step, call.key)
    return {"log": [*state.log, call.step], "receipt": receipt}


def verify(state: State, call: Call) -> Any:
    if outside.is_made(call.key):
        return Done({"log": [*state.log, call.step], "receipt": "found"})
    return NotDone


def plain(state: State, call: Call) -> Any:
    return effect(state, call)


def once(state: State, call: Call) -> Any:
    for name in ("first", "second"):
        call.once(name, outside.make, call.thread_id, f"once.{name}", call.key_of(name))
    return effect(state, call)


def transactional(state: State, call: Call) -> Any:
    outside.write(call.connection, call.thread_id, call.step, call.key)
    return {"log": [*state.log, call.step]}


def wait(state: State, call: Call) -> Any:
    return wait_for("answer", into="answer", update=effect(state, call))


def slept(state: State, call: Call) -> Any:
    return sleep(0.3, update=effect(state, call))


def retry(state: State, call: Call) -> Any:
    if call.attempt == 1:
        raise OSError("the API is down")
    return effect(state, call)


def fan(state: State, call: Call) -> Any:
    return fan_out("leaf", over=range(LEAVES), into="answer", update=effect(state, call))


def leaf(item: int, call: Call) -> int:
    outside.make(call.thread_id, call.step, call.key)
    return item


KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "plain": (plain, {}),
    "once": (once, {}),
    "transactional": (transactional, {"transactional": True}),
    "wait": (wait, {}),
    "sleep": (slept, {}),
    "retry": (retry, {"retry": Retry(attempts=5, wait=wait_fixed(0.1))}),
    "hold": (plain, {"in_doubt": "hold"}),
    "verify": (plain, {"in_doubt": verify}),
    "fan": (fan, {}),
}


def _workflow(kind: str) -> Workflow:
    function, options = KINDS[kind]
    workflow = Workflow(f"matrix-{kind}", state=State, timeout=timedelta(minutes=5))
    workflow.step(name="before")(effect)
    workflow.step(name=MIDDLE, **options)(function)
    workflow.step(name="after")(effect)
    if kind == "fan":
        workflow.branch(leaf)
    return workflow


ALL = [_workflow(kind) for kind in KINDS]
globals().update({f"matrix_{kind}": workflow for kind, workflow in zip(KINDS, ALL, strict=True)})
