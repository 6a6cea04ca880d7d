"""Async steps: what they share, what they may do wrong, and how many wait at once."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Call, Retry, Workflow
from tests.support import trace

who = contextvars.ContextVar("who", default="nobody")


class State(BaseModel):
    how: str = ""
    seconds: float = 0.5
    value: Any = None


waits = Workflow("waits", state=State, retry=Retry(attempts=2, wait=wait_fixed(0.1)))


@waits.step(timeout=timedelta(seconds=30))
async def model_call(state: State, call: Call) -> Any:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    who.set(call.thread_id)
    match state.how:
        case "exit":
            raise SystemExit(3)
        case "cancel":
            raise asyncio.CancelledError
        case "cancel itself":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
    await asyncio.sleep(state.seconds)
    return {"value": [threading.current_thread().name, os.getpid(), who.get()]}


sleeps = Workflow("sleeps", state=State)


@sleeps.step
def api_call(state: State, call: Call) -> None:
    time.sleep(state.seconds)


stuck = Workflow("stuck", state=State, retry=Retry(attempts=1))


@stuck.step(timeout=timedelta(seconds=1))
async def block(state: State, call: Call) -> None:
    time.sleep(state.seconds)


ALL = [waits, sleeps, stuck]
