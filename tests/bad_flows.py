"""A step that does what no step should."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from typing import Any

from pydantic import BaseModel
from tenacity import wait_fixed

from keepstep import Call, Retry, Workflow
from tests.support import trace


class State(BaseModel):
    how: str = ""
    value: Any = None


class Unpicklable(Exception):
    """Holds what can't be pickled, and wants arguments that a copy doesn't have."""

    def __init__(self, one: object, *, two: object):
        super().__init__()
        self.lock, self.two = threading.Lock(), two


def misbehave(state: State, call: Call) -> Any:
    trace.write(call.thread_id, call.step, call.key, call.attempt)
    match state.how:
        case "unpicklable":
            raise Unpicklable(1, two=threading.Lock())
        case "_exit":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "MemoryError":
            raise MemoryError
        case "recursion":
            return misbehave(state, call)
        case "generator":
            return (n for n in range(3))
        case "file":
            return {"value": open(os.devnull)}
        case "huge":
            return {"value": "x" * 50_000_000}
        case "slow":
            time.sleep(8)
    return {"value": call.attempt}


bad = Workflow("bad", state=State, retry=Retry(attempts=2, wait=wait_fixed(0.1)))
bad.step(name="misbehave")(misbehave)
ALL = [bad]
