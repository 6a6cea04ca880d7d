"""What a step is told about its own call, made from its claim, and how the call is recorded."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from keepstep.checkpoint import ledger
from keepstep.checkpoint.claims import Claim, still_held
from keepstep.checkpoint.database import Database
from keepstep.config.logs import case_logger
from keepstep.steps.call import MAX_BYTES, Begun, Call, Cost
from keepstep.steps.errors import DatabaseUnavailable, LeaseLost
from keepstep.steps.secret import Cover
from keepstep.workers.failpoints import reach
from keepstep.workers.interrupt import END, SOFT_LIMIT
from keepstep.workers.patience import COMMIT, patient

ASK_SECONDS = 0.25
"""How often `call.cancelled()` and `call.heartbeat()` ask PostgreSQL at the most, however often they are called."""
BEAT = 1.0
"""Seconds. A heartbeat that can't be written is left to the next one: long enough for a connection that has died."""


def make_call(
    claim: Claim, db: Database, *, max_bytes: int = MAX_BYTES, cover: Callable[[], Cover] | None = None
) -> Call:
    """What the step is told about its call.

    db: where its recorded calls go, and what is asked, when the step asks, whether it is still wanted. max_bytes: of a
    recorded result. cover: hides the case's secrets in what is logged.
    """
    log = case_logger(claim.workflow, claim.thread_id, claim.step, claim.delivery.seq, cover)
    return Call(
        workflow=claim.workflow,
        thread_id=claim.thread_id,
        step=claim.step,
        seq=claim.delivery.seq,
        attempt=claim.attempt,
        deadline=claim.deadline,
        log=log,
        detail=claim.detail,
        _run=claim.run,
        _is_cancelled=_asking(claim, db),
        _ledger=Recording(claim, db, log),
        _max_bytes=max_bytes,
    )


class Recording:
    """One attempt's side of the ledger: patient with the database, and not to be interrupted while it writes."""

    def __init__(self, claim: Claim, db: Database, log: logging.LoggerAdapter[logging.Logger]):
        self._claim, self._db, self._log = claim, db, log
        self._tries: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._said: str | None = None  # the last detail that was stored
        self._unsaid: str | None = None  # one that could not be
        self._beat_at = float("-inf")

    def begin(self, name: str, key: UUID, digest: str) -> Begun:
        """Write the intent. A step that has come this far isn't given up because PostgreSQL restarts."""
        tries = self._tries.get(name, 0) + 1
        begun: Begun | None = patient(COMMIT)(
            _uninterrupted(ledger.begin), self._db, self._claim, name=name, key=key, digest=digest, tries=tries
        )
        if begun is None:
            raise self._lost(f"the call {name!r} was not made")
        self._tries[name], self._began[name] = begun.attempts, time.monotonic()
        self._reach("intended")
        return begun

    def finish(self, begun: Begun, result: str, cost: Cost) -> None:
        """Keep the result, or, when the lease is gone, keep it as late."""
        self._reach("answered")
        took = time.monotonic() - self._began[begun.name]
        write = _uninterrupted(patient(COMMIT))
        if write(ledger.finish, self._db, self._claim, begun, result=result, cost=cost, took=took):
            self._reach("recorded")
            return
        write(ledger.record_late, self._db, self._claim, begun, result=result, cost=cost)
        raise self._lost(f"what the call {begun.name!r} returned is kept as late, see `keepstep history`")

    def beat(self, detail: str | None) -> None:
        """Say that the step goes on. Where PostgreSQL can't be reached, the next one says it."""
        detail = detail or self._unsaid
        changed = detail is not None and detail != self._said
        if not changed and time.monotonic() - self._beat_at < ASK_SECONDS:
            return
        try:
            held = patient(BEAT)(_uninterrupted(ledger.beat), self._db, self._claim, detail if changed else None)
        except DatabaseUnavailable as error:
            self._unsaid = detail
            self._log.warning("a heartbeat could not be written: %s", error)
            return
        if not held:
            raise self._lost("")
        self._said, self._unsaid, self._beat_at = detail or self._said, None, time.monotonic()

    def _reach(self, point: str) -> None:
        reach(point, self._claim.delivery.case, self._claim.delivery.seq)

    def _lost(self, what: str) -> LeaseLost:
        claim = self._claim
        at = f"{claim.step}#{claim.delivery.seq} attempt {claim.attempt}"
        return LeaseLost(
            claim.workflow,
            claim.thread_id,
            f"{at} was taken away: the case was cancelled or moved, or this worker was taken for dead. Nothing that "
            f"this attempt returns will be taken{what and '; ' + what}. Let this error pass through.",
        )


def _asking(claim: Claim, db: Database) -> Callable[[], bool]:
    """Whether the attempt has lost its lease, asked now and then."""
    last = {"cancelled": False, "at": float("-inf")}

    def is_cancelled() -> bool:
        if time.monotonic() - last["at"] >= ASK_SECONDS:
            try:
                last["cancelled"] = not still_held(db, claim)
            except DatabaseUnavailable:
                last["cancelled"] = False
            last["at"] = time.monotonic()
        return bool(last["cancelled"])

    return is_cancelled


def _uninterrupted(write: Callable[..., Any]) -> Callable[..., Any]:
    """Let no signal raise in the middle of a write: what a call returned would be lost. It is delivered afterwards."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with _postponed():
            return write(*args, **kwargs)

    return run


@contextmanager
def _postponed() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    came: set[int] = set()
    before = {number: signal.getsignal(number) for number in (END, SOFT_LIMIT)}
    for number in before:
        signal.signal(number, lambda received, _frame: came.add(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in before:  # the end first: whichever raises is the last
            if number in came:
                signal.raise_signal(number)
