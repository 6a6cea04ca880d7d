"""A case of 42 steps, of every kind that there is; each calls the outside world, sleeps, waits, or fans out."""

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
from keepstep import Call, Done, NotDone, Retry, Workflow, fan_out, sleep, start_child, wait_for

SEED_VARIABLE = "KEEPSTEP_CHAOS_SEED"
SLOW_QUEUE = "chaos-slow"
PIECES, GRAINS, AT_ONCE = 5, 2, 2
"""Branches of a fan-out, those of its first one, and how many of the former may be unfinished at a time."""
ERRANDS = ("there", "back")
"""The steps of the child."""
BACK_OFF = 0.3
"""Seconds between two tries of a step that raises."""
DEADLINE = 1.5
"""Seconds for which the wait for "never" lasts."""
NOBODY = "nobody answered"

TABLE = sa.text("create table if not exists chaos_effects (thread_id text, step text, key text)")
_INSERT = sa.text("insert into chaos_effects (thread_id, step, key) values (:thread_id, :step, :key)")


class Errand(BaseModel):
    """What a branch or a child does for a case. what: it is called outside. grains: in so many branches of its own."""

    case: str
    what: str
    grains: int = 0
    receipts: list[str] = []


class Work(BaseModel):
    """log: the steps whose result was kept. receipts: by what was called. pieces, child: what came of the branches.

    The rest: what came of the waits.
    """

    log: list[str] = []
    receipts: dict[str, str] = {}
    pieces: list[Any] = []
    child: Errand | None = None
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


def fan(state: Work, call: Call) -> Any:
    """Call, and fan out: a few pieces at a time, of which the first fans out itself."""
    pieces = [Errand(case=call.thread_id, what=f"{call.step}/{n}") for n in range(PIECES)]
    pieces[0].grains = GRAINS
    return fan_out("piece", over=pieces, into="pieces", max_running=AT_ONCE, update=plain(state, call))


def child(state: Work, call: Call) -> Any:
    """Call, and have another workflow do two things."""
    errand = Errand(case=call.thread_id, what=call.step)
    return start_child(errands, errand, into="child", update=plain(state, call))


def piece(item: Errand, call: Call) -> Any:
    """A branch: down every third time, before it has done anything."""
    if chance(call, "fails").random() < 0.3:
        raise OSError("the API is down")
    receipt = outside.call(item.case, item.what, call.key, chance(call))
    grains = [Errand(case=item.case, what=f"{item.what}/{n}") for n in range(item.grains)]
    return fan_out("grain", over=grains, into="result") if grains else receipt


def grain(item: Errand, call: Call) -> str:
    """A branch of a branch."""
    return outside.call(item.case, item.what, call.key, chance(call))


def go(state: Errand, call: Call) -> dict[str, Any]:
    """A step of the child."""
    receipt = outside.call(state.case, f"{state.what}/{call.step}", call.key, chance(call))
    return {"receipts": [*state.receipts, receipt]}


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
    "fan": (fan, {}),
    "child": (child, {}),
}

_ORDER = """
plain plain once transactional fan hold slow raising verify plain early once plain transactional hold child slow sleep
raising verify plain plain late transactional once hold fan slow raising verify never transactional child plain hold
sleep once raising verify transactional slow fan
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


errands = Workflow("chaos-errands", state=Errand, timeout=timedelta(minutes=2), retry=_RETRY)
for _name in ERRANDS:
    errands.step(name=_name)(go)

chaos = Workflow("chaos", state=Work, timeout=timedelta(minutes=2), retry=_RETRY)
for _name, _kind in STEPS.items():
    _function, _options = KINDS[_kind]
    chaos.step(name=_name, **_options)(_function)
for _branch in (piece, grain):
    chaos.branch(_branch)
