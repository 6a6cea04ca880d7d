"""A case of 42 steps, of every kind that there is; each calls the outside world, sleeps, or waits."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

import sqlalchemy as sa
from pydantic import BaseModel
from tenacity import wait_fixed

from benchmarks.chaos import outside
from benchmarks.chaos.dice import dice
from keepstep import Call, Done, NotDone, Retry, Workflow, sleep, wait_for

SEED_VARIABLE = "KEEPSTEP_CHAOS_SEED"
SLOW_QUEUE = "chaos-slow"
BACK_OFF = 0.3
"""Seconds between two tries of a step that raises."""
DEADLINE = 1.5
"""Seconds for which the wait for "never" lasts."""
NOBODY = "nobody answered"

TABLE = sa.text("create table if not exists chaos_effects (thread_id text, step text, key text)")
_INSERT = sa.text("insert into chaos_effects (thread_id, step, key) values (:thread_id, :step, :key)")


class Work(BaseModel):
    """log: the steps whose result was kept. receipts: by what was called. The rest: what came of the waits."""

    log: list[str] = []
    receipts: dict[str, str] = {}
    early: str | None = None
    late: str | None = None
    never: str | None = None


def plain(state: Work, call: Call) -> dict[str, Any]:
    """One outside call under the step's key."""
    return kept(state, call, outside.call(call.thread_id, call.step, call.key, chance(call)))


def once(state: Work, call: Call) -> dict[str, Any]:
    """Two recorded calls, and one more."""
    more = {
        f"{call.step}.{name}": call.once(name, _recorded, call.thread_id, f"{call.step}.{name}", call.key_of(name))
        for name in ("first", "second")
    }
    return kept(state, call, outside.call(call.thread_id, call.step, call.key, chance(call)), **more)


def transactional(state: Work, call: Call) -> dict[str, Any]:
    """An effect in keepstep's own database."""
    call.connection.execute(_INSERT, {"thread_id": call.thread_id, "step": call.step, "key": call.key})
    outside.begin(call.thread_id, call.step, call.key, outside.duration(chance(call)))
    return kept(state, call, "a row")


def raising(state: Work, call: Call) -> dict[str, Any]:
    """Down every other time, before it has done anything."""
    if chance(call, "fails").random() < 0.5:
        raise OSError("the API is down")
    return plain(state, call)


def hold(state: Work, call: Call) -> dict[str, Any]:
    """A call that nobody may repeat unasked. Now and then it can't be made, or its answer is lost."""
    thrown = chance(call, "fails").random()
    if thrown < 0.05:
        raise ConnectionRefusedError("nobody listens")
    changes = plain(state, call)
    if thrown > 0.98:
        raise TimeoutError("the request was sent, no answer came")
    return changes


def verify(state: Work, call: Call) -> dict[str, Any]:
    """A call that can be looked up. Now and then it fails, before or after its effect."""
    thrown = chance(call, "fails").random()
    if thrown < 0.05:
        raise TimeoutError("no answer came")
    changes = plain(state, call)
    if thrown > 0.95:
        raise TimeoutError("the request was sent, no answer came")
    return changes


def look(state: Work, call: Call) -> Any:
    """What `verify` asks; truthful, because it is asked when the process that made the call is gone."""
    receipt = outside.receipt_of(call.thread_id, call.key)
    return NotDone if receipt is None else Done(kept(state, call, receipt))


def nap(state: Work, call: Call) -> Any:
    """Call, and sleep."""
    return sleep(nap_seconds(call.thread_id, call.step), update=plain(state, call))


def early(state: Work, call: Call) -> Any:
    """Wait for what was sent long ago."""
    return wait_for("early", into="early", update=plain(state, call))


def late(state: Work, call: Call) -> Any:
    """Wait for an answer that is given only when it is asked for."""
    return wait_for("late", into="late", prompt={"log": len(state.log)}, update=plain(state, call))


def never(state: Work, call: Call) -> Any:
    """Wait for an answer that doesn't come, until the deadline gives another."""
    return wait_for("never", into="never", timeout=DEADLINE, default=NOBODY, update=plain(state, call))


_RETRY = Retry(attempts=30, wait=wait_fixed(BACK_OFF))

KINDS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "plain": (plain, {}),
    "slow": (plain, {"queue": SLOW_QUEUE}),
    "once": (once, {}),
    "transactional": (transactional, {"transactional": True}),
    "raising": (raising, {}),
    "hold": (hold, {"in_doubt": "hold", "safe_errors": [ConnectionRefusedError]}),
    "verify": (verify, {"in_doubt": look}),
    "sleep": (nap, {}),
    "early": (early, {}),
    "late": (late, {}),
    "never": (never, {}),
}

_ORDER = """
plain plain once transactional plain hold slow raising verify plain early once plain transactional hold plain slow sleep
raising verify plain plain late transactional once hold plain slow raising verify never transactional plain plain hold
sleep once raising verify transactional slow plain
"""

STEPS = {f"{kind}_{number}": kind for number, kind in enumerate(_ORDER.split(), 1)}
"""The steps in order, with their kinds."""


def kept(state: Work, call: Call, receipt: str, **more: str) -> dict[str, Any]:
    """What a step that has made its calls changes."""
    return changes(state.log, state.receipts, call.step, {call.step: receipt, **more})


def changes(log: list[str], receipts: dict[str, str], step: str, more: dict[str, str]) -> dict[str, Any]:
    """The update of a state by a step that was done: by its code, or by somebody who saw its effect."""
    return {"log": [*log, step], "receipts": {**receipts, **more}}


def chance(call: Call, *what: str) -> Random:
    """This attempt's dice."""
    return dice(os.environ[SEED_VARIABLE], call.thread_id, call.step, call.attempt, *what)


def nap_seconds(thread_id: str, step: str) -> float:
    """How long a step sleeps."""
    return dice("nap", thread_id, step).uniform(0.5, 3.0)


def _recorded(thread_id: str, what: str, key: str) -> str:
    return outside.call(thread_id, what, key, dice(os.environ[SEED_VARIABLE], thread_id, what, os.getpid()))


chaos = Workflow("chaos", state=Work, timeout=timedelta(minutes=2), retry=_RETRY)
for _name, _kind in STEPS.items():
    _function, _options = KINDS[_kind]
    chaos.step(name=_name, **_options)(_function)
