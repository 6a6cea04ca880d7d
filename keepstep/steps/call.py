"""What a step is told about its own call, and how it records what it does outside."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from numbers import Integral, Real
from threading import Lock
from typing import Any, ParamSpec, Protocol, TypeVar
from uuid import UUID

from keepstep.steps.errors import BadState, CallMismatch, LeaseLost
from keepstep.steps.keys import (
    arguments_that_differ,
    check_call_name,
    digest_of,
    idempotency_key,
    once_key,
    same_arguments,
    why_unstorable,
)
from keepstep.steps.state import refuse_what_json_lacks

P = ParamSpec("P")
T = TypeVar("T")

MAX_BYTES = 4 * 1024 * 1024
"""The largest result of a recorded call, unless the settings say otherwise."""
MAX_DETAIL_BYTES = 64 * 1024
"""The largest detail of a heartbeat: it is part of the row that every step updates."""

Cost = dict[str, float | int]
"""What was spent, by unit: `{"usd": 0.012, "tokens": 1840}`."""


@dataclass(frozen=True, kw_only=True)
class Begun:
    """A recorded call as the ledger has it. attempts: how often it was called, this time included.

    result: its JSON in a list, if it has ended before; None if it is to be called now.
    """

    name: str
    key: UUID
    digest: str
    attempts: int
    result: str | None


class Ledger(Protocol):
    """Keeps what a step calls outside. Each raises LeaseLost if the attempt was taken away."""

    def begin(self, name: str, key: UUID, digest: str) -> Begun:
        """Write down that the call is about to be made, or find what is known of it."""

    def finish(self, begun: Begun, result: str, cost: Cost) -> None:
        """Keep its result: JSON in a list."""

    def beat(self, detail: str | None) -> None:
        """Say that the step goes on. detail: JSON; None keeps the last one."""


@dataclass(kw_only=True)
class Call:
    """The outside call that a step makes; `once` records one more.

    attempt: 1 on the first try. seq: the checkpoint it starts from. deadline: when the attempt is taken away, by the
    database's clock. key, headers: see there. log: a logger whose lines carry the thread id. detail: what the last
    heartbeat of an earlier attempt said. spent: what `cost` added up, but for that of recorded calls.
    """

    workflow: str
    thread_id: str
    step: str
    seq: int
    attempt: int
    deadline: datetime
    log: logging.LoggerAdapter[logging.Logger]
    detail: Any = None
    spent: Cost = field(default_factory=dict, init=False)
    key_read: bool = field(default=False, init=False)
    _run: UUID
    _connection: Any = field(default=None, repr=False)  # of a transactional step
    _is_cancelled: Callable[[], bool] = field(default=lambda: False, repr=False)
    _ledger: Ledger | None = field(default=None, repr=False)  # None: nothing is recorded, in a test of the step alone
    _max_bytes: int = field(default=MAX_BYTES, repr=False)
    _open: set[str] = field(default_factory=set, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    @property
    def key(self) -> str:
        """The idempotency key: a UUID, the same on every attempt of this step. Reading it is remembered."""
        self.key_read = True
        return str(idempotency_key(self._run, self.seq, self.step))

    @property
    def headers(self) -> dict[str, str]:
        """The key as HTTP headers, ready to send."""
        return {"Idempotency-Key": self.key}

    def key_of(self, name: str) -> str:
        """The idempotency key of the recorded call `name`: a UUID, the same on every attempt of this step."""
        self.key_read = True
        return str(self._key_of(name))

    @property
    def connection(self) -> Any:
        """The SQLAlchemy connection of a transactional step, whose transaction its checkpoint is committed with."""
        if self._connection is None:
            raise RuntimeError(
                f"{self.step!r} has no connection: declare it with @{self.workflow}.step(transactional=True)"
            )
        return self._connection

    def cancelled(self) -> bool:
        """Whether this attempt's result will not be taken any more: cancelled, rewound, or taken for dead.

        A long step asks from time to time, and may end early; whatever it still returns is kept as late. It is False
        too when nobody can say, because PostgreSQL is away.
        """
        return self._is_cancelled()

    def once(self, name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call `fn(*args, **kwargs)` and record its result, so that a later attempt of this step doesn't call again.

        A call that has ended returns what it returned then; one that began and didn't end is made again, with the same
        `key_of(name)`. What it returns must be JSON, and comes back as JSON does: a tuple as a list. What it raises
        passes through, and nothing is recorded but that it was tried. Nothing is held while it runs.

        Raises CallMismatch (other arguments than before), BadState (arguments or result can't be JSON, or the result
        is larger than `max_state_bytes`), LeaseLost (this attempt was taken away: let it pass through).
        """
        if inspect.iscoroutinefunction(fn):
            raise TypeError(_async(name))
        key, digest = self._key_of(name), digest_of(name, args, kwargs)
        with self._entered(name), self._recorded(self._begin(name, key, digest)) as recorded:
            if recorded.is_new:
                recorded.keep(fn(*args, **kwargs))
        return recorded.value  # type: ignore[no-any-return]

    async def once_async(self, name: str, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """As `once`, for a function that is awaited. The writes are made beside the event loop, which others share."""
        key, digest = self._key_of(name), digest_of(name, args, kwargs)
        with self._entered(name):
            begun = await asyncio.to_thread(self._begin, name, key, digest)
            with self._recorded(begun) as recorded:
                if recorded.is_new:
                    value: Any = fn(*args, **kwargs)
                    await asyncio.to_thread(recorded.keep, await value if inspect.isawaitable(value) else value)
        return recorded.value  # type: ignore[no-any-return]

    def cost(self, *, usd: float | None = None, tokens: float | None = None, **more: float) -> None:
        """Add what was spent: numbers that are finite and not negative, or ValueError, and nothing is added.

        Inside of a recorded call it is that call's cost; elsewhere the step's own, see `spent`.
        """
        given = {"usd": usd, "tokens": tokens, **more}
        numbers = {name: _number(name, value) for name, value in given.items() if value is not None}
        within = _recording.get()
        self._spend(within.spent if within is not None and within.call is self else self.spent, numbers)

    def heartbeat(self, detail: Any = None) -> None:
        """Say that the step goes on, so that it isn't taken for hung where it has a heartbeat timeout.

        detail: JSON of at most 64 KiB, which the next attempt finds as `call.detail` if this one ends early; None
        keeps the last one. Cheap enough to be called in every turn of a loop: it asks PostgreSQL four times a second
        at the most, unless the detail has changed. Raises LeaseLost if this attempt was taken away, which the step
        should let pass through; BadState for a detail that can't be stored.
        """
        text = None
        if detail is not None:
            text = _json(detail, "the heartbeat's detail")
            if len(text.encode()) > MAX_DETAIL_BYTES:
                raise BadState(
                    f"the heartbeat's detail is {len(text.encode()):,} bytes of JSON, the most is "
                    f"{MAX_DETAIL_BYTES:,}: keep a reference to what is larger"
                )
        if self._ledger is not None:
            self._ledger.beat(text)

    @contextmanager
    def _recorded(self, begun: Begun) -> Iterator[_Recorded]:
        recorded = _Recorded(self, begun)
        outer = _recording.set(recorded)
        try:
            yield recorded
        except BaseException:
            self._spend(self.spent, recorded.spent)  # its row stays unfinished, but what it cost isn't lost
            raise
        finally:
            _recording.reset(outer)

    @contextmanager
    def _entered(self, name: str) -> Iterator[None]:
        with self._lock:
            if name in self._open:
                raise RuntimeError(f"the call {name!r} is being made already: give a second one another name")
            self._open.add(name)
        try:
            yield
        finally:
            self._open.discard(name)

    def _begin(self, name: str, key: UUID, digest: str) -> Begun:
        if self._ledger is None:
            return Begun(name=name, key=key, digest=digest, attempts=1, result=None)
        begun = self._ledger.begin(name, key, digest)
        if not same_arguments(begun.digest, digest):
            raise CallMismatch(
                self.workflow,
                self.thread_id,
                f"{self.step}#{self.seq}",
                name,
                before=begun.digest,
                now=digest,
                differing=arguments_that_differ(begun.digest, digest),
            )
        return begun

    def _key_of(self, name: str) -> UUID:
        return once_key(self._run, self.seq, self.step, check_call_name(name))

    def _spend(self, total: Cost, numbers: Cost) -> None:
        with self._lock:
            sums = {name: total.get(name, 0) + number for name, number in numbers.items()}
            for name, number in sums.items():
                _number(name, number)
            total.update(sums)


class _Recorded:
    """A recorded call while it is made. spent: what it costs."""

    def __init__(self, call: Call, begun: Begun):
        self.call, self.begun, self.spent = call, begun, Cost()
        self.is_new = begun.result is None
        self.value: Any = None if begun.result is None else json.loads(begun.result)[0]

    def keep(self, value: Any) -> None:
        """Store what the function returned."""
        name, ledger = self.begun.name, self.call._ledger
        if inspect.isawaitable(value):
            if inspect.iscoroutine(value):
                value.close()
            raise TypeError(_async(name))
        what = f"the result of the call {name!r}"
        text = f"[{_json(value, what)}]"
        if len(text.encode()) > self.call._max_bytes:
            raise BadState(
                f"{what} is {len(text.encode()):,} bytes of JSON, the most is {self.call._max_bytes:,} "
                "(KEEPSTEP_MAX_STATE_BYTES): keep it elsewhere, and return a reference"
            )
        if ledger is not None:
            try:
                ledger.finish(self.begun, text, self.spent)
            except LeaseLost:
                self.spent = Cost()  # it is kept with the late result
                raise
        self.value = json.loads(text)[0]


_recording: ContextVar[_Recorded | None] = ContextVar("recording", default=None)
"""The recorded call whose function runs now, in this thread or task."""


def _json(value: Any, what: str) -> str:
    try:
        refuse_what_json_lacks(value)
    except BadState as error:
        hint = "Plain values can: model.model_dump(mode='json') of a model, the text of a date"
        raise BadState(f"{what} can't be stored: {error}. {hint}", path=error.path) from None
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(name: str, value: Any) -> float | int:
    flaw = why_unstorable(name)
    if flaw is None and type(value) is not bool and isinstance(value, Real | Decimal):
        try:
            number = float(value)
        except (OverflowError, ValueError):
            number = math.nan
        if math.isfinite(number) and number >= 0:
            return int(value) if isinstance(value, Integral) else number
    raise ValueError(
        f"the cost {name!r} must be " + ("named by plain text" if flaw else "a number, finite and not negative")
    )


def _async(name: str) -> str:
    return f"the function of the call {name!r} is to be awaited: use `await call.once_async({name!r}, ...)`"
