"""The event loop of a process, shared by all its `async def` steps: a thousand waiting model calls fit into one worker.

It runs in a thread of its own, so a pool of threads waits for many coroutines at once. A coroutine that blocks the loop
blocks its neighbours, as in any asyncio program.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import Any

PATIENCE = 1.0
"""Seconds that a cancelled coroutine gets to end."""

log = logging.getLogger("keepstep.step")

_lock = threading.Lock()
_loops: dict[int, asyncio.AbstractEventLoop] = {}  # by pid: a fork has none of its parent's threads


def run(awaitable: Awaitable[Any]) -> Any:
    """Wait for it on this process's loop; what it returns or raises. Interrupted itself, it cancels it."""
    done: Future[Any] = Future()
    task: list[asyncio.Task[None]] = []
    loop = _loop()

    async def settle() -> None:
        try:
            done.set_result(await awaitable)
        except BaseException as error:  # noqa: BLE001  (a step's sys.exit() must not end the loop of the others)
            done.set_exception(error)

    def begin() -> None:
        task.append(loop.create_task(settle()))

    try:
        loop.call_soon_threadsafe(begin, context=contextvars.copy_context())
        return done.result()
    except BaseException:
        if not done.done():  # a timeout or the end of the worker, raised in this thread
            loop.call_soon_threadsafe(lambda: task and task[0].cancel())
            _leave_if_stuck(loop, done)
        raise


def _leave_if_stuck(loop: asyncio.AbstractEventLoop, done: Future[Any]) -> None:
    """A coroutine that blocks its loop, or swallows the cancellation, must not keep those that come after it."""
    try:
        done.exception(PATIENCE)
    except TimeoutError:
        log.error("an async step doesn't end when it is cancelled; the next one gets a new event loop")
        with _lock:
            if _loops.get(os.getpid()) is loop:
                del _loops[os.getpid()]


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        found = _loops.get(os.getpid())
        if found is None:
            found = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=found.run_forever, name="keepstep-loop", daemon=True).start()
        return found


def _renew() -> None:
    """After a fork: the lock may have been held by a thread that isn't there any more."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew)
