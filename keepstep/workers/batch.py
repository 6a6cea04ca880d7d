"""A batch: quick steps of several cases, claimed together, run one after the other, committed together.

Each step keeps its own lease, attempt, key, deadline and log line; together are the statements, the flush, and the
messages. A step that turns out slow holds nobody: a watching thread commits what is done by then, and gives back what
has not begun.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

from keepstep.checkpoint.claims import Claim, claim_many, give_back
from keepstep.checkpoint.ring import Delivery, Ring
from keepstep.steps.decide import Decision
from keepstep.workers.branches import concerned
from keepstep.workers.engine import Engine
from keepstep.workers.failpoints import reach
from keepstep.workers.patience import CLAIM, COMMIT, patient
from keepstep.workers.settle import Done, settle_many

SLOW = 0.02
"""Seconds. A step that takes longer has no company any more."""
TOGETHER = 0.3
"""Seconds after which a batch begins no further step, even if nobody could look; it may take so much longer than one
step, and each has its whole timeout."""
LOOK = 0.01
"""Seconds between two looks of the watching thread, while a batch runs."""

IDLE = 1.0
"""Seconds without a batch after which it doesn't look any more, until the next one."""

log = logging.getLogger("keepstep.step")


class Batch:
    """The steps that one process runs in a row. Its own thread and the watching one share it under a lock.

    The lock is held while the database is written, and never while a step runs. goes_on: whether this process goes on
    with the next step of a case; its lease is then taken with the commit. next_claims: those steps, at the end.
    """

    def __init__(self, engine: Engine, claims: Sequence[Claim], goes_on: Callable[[Claim, Decision], bool]):
        self._engine, self._lock, self._goes_on = engine, threading.Lock(), goes_on
        self._waiting, self._done = deque(claims), list[Done]()
        self._begun = time.monotonic()
        self._since: float | None = None
        self.next_claims: list[Claim] = []

    def next(self) -> Claim | None:
        """The step to run now; None when there is none left."""
        with self._lock:
            now = time.monotonic()
            if not self._waiting or now - self._begun > TOGETHER:
                return None
            self._since = now
            return self._waiting.popleft()

    def keep(self, claim: Claim, decision: Decision, took: float) -> bool:
        """Keep a decision to commit it with the others. False: it is one to be carried out by itself."""
        with self._lock:
            if decision.move not in ("advance", "complete") or concerned(claim, decision):
                return False  # the watching thread goes on looking: this one's own commit may take long
            self._since = None
            self._done.append(Done(claim=claim, decision=decision, took=took))
            return True

    def part_if_slow(self) -> None:
        """When the present step takes long: commit what is done, and let others have what has not begun."""
        if not self._is_slow():  # nearly always, and then the lock isn't taken from the one who works
            return
        with self._lock:
            if self._is_slow():
                self._commit()
                self._give_back()

    def _is_slow(self) -> bool:
        since = self._since
        return since is not None and time.monotonic() - since > SLOW

    def finish(self, *, goes_on: bool = True) -> None:
        """Commit what is done, and give back what has not begun. goes_on: whether next steps may be taken at all."""
        with self._lock:
            self._since = None
            self._done = [self._going_on(one) for one in self._done] if goes_on else self._done
            self._commit()
            self._give_back()

    def _going_on(self, one: Done) -> Done:
        return replace(one, onward=uuid4()) if self._goes_on(one.claim, one.decision) else one

    def _commit(self) -> None:
        done, self._done = self._done, []
        if not done:
            return
        rings: list[Ring] = []
        try:
            for committed in settle_many(self._engine, done):
                rings += [] if committed.ring is None else [committed.ring]
                self.next_claims += [] if committed.next is None else [committed.next]
            for one in done:
                reach("committed", one.claim.delivery.case, one.claim.delivery.seq)
        finally:
            self._engine.bell.ring(rings)
        for one in done:
            reach("published", one.claim.delivery.case, one.claim.delivery.seq)

    def _give_back(self) -> None:
        waiting, self._waiting = list(self._waiting), deque()
        if waiting:
            rings = patient(COMMIT)(give_back, self._engine.db, waiting)
            self._engine.bell.ring(rings, first=True)  # they had their turn


def claim_batch(engine: Engine, deliveries: Sequence[Delivery]) -> list[Claim]:
    """Claim those that may run in company; the others may be run alone."""
    for delivery in deliveries:
        reach("claiming", delivery.case, delivery.seq)
    once = list({delivery.case: delivery for delivery in deliveries}.values())
    claims: list[Claim] = patient(CLAIM)(claim_many, engine.db, once, engine.claimant, [uuid4() for _ in once])
    return claims


@contextmanager
def watched(batch: Batch) -> Iterator[None]:
    """Have the watching thread of this process look after the batch, until it is finished.

    After an error of the engine nobody would run the next steps.
    """
    _watch.look_after(batch)
    ended_well = False
    try:
        yield
        ended_well = True
    finally:
        _watch.look_after(None)
        batch.finish(goes_on=ended_well)


class _Watch:
    """One thread for each process that runs batches, started with the first.

    It looks every now and then by itself, so that a batch need not wake it; after a while without any it sleeps.
    """

    def __init__(self) -> None:
        self._batch: Batch | None = None
        self._there, self._pid = threading.Event(), 0

    def look_after(self, batch: Batch | None) -> None:
        if self._pid != os.getpid():  # a child has none of its parent's threads
            self._there, self._pid = threading.Event(), os.getpid()
            threading.Thread(target=self._look, args=(self._there,), name="keepstep-batch", daemon=True).start()
        self._batch = batch
        if batch is not None and not self._there.is_set():
            self._there.set()

    def _look(self, there: threading.Event) -> None:
        idle = 0
        while True:
            time.sleep(LOOK)
            batch = self._batch
            idle = idle + 1 if batch is None else 0
            if batch is not None:
                self._part(batch)
            elif idle * LOOK > IDLE:
                there.clear()
                if self._batch is None:  # else one came just now
                    there.wait()
                idle = 0

    def _part(self, batch: Batch) -> None:
        try:
            batch.part_if_slow()
        except Exception:
            log.exception("an error of the engine; the sweep recovers")


_watch = _Watch()
