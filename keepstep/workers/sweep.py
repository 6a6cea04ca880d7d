"""The sweep: what every node does for all cases, so that nothing depends on the broker or on one process.

Each round: look whether other nodes are dead, look whether this node really runs what the database says, and, when it
is this node's turn, look at the heads that are due. It waits for nobody's lock: a case that somebody has in hand is
passed by, and looked at in the next round.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from uuid import UUID

from keepstep.checkpoint import nodes, recovery, retention, waits
from keepstep.checkpoint.fold import fold
from keepstep.checkpoint.recovery import Recovery, Running
from keepstep.checkpoint.ring import Ring
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.workers import branches, process
from keepstep.workers.engine import Engine
from keepstep.workers.hooks import ring_hooks
from keepstep.workers.judge import Judge

AUDIT_SECONDS = 2.0
"""For how long a running head that nobody here executes is left alone."""
PRUNE_EVERY = 30.0
PRUNE_SECONDS = 0.1
"""For so long a node deletes at a time. Then it pauses for PRUNE_SHARE times as long, times the number of nodes."""
PRUNE_SHARE = 9.0
FOLD_EVERY = 5.0
"""Seconds, times the number of nodes, after there was something to fold: so long may a quick loop pile up.
Where there was nothing, it is PRUNE_EVERY, since the look reads all heads of the workflow."""
DEATH_AHEAD = 60.0
"""Seconds. After a death, queued cases are rung before they are overdue: the dead may have held their messages."""
BACKLOG_SECONDS = 300.0
"""When cases whose message waits in a long queue are looked at again, unless the queue is empty before."""
MIXED_AHEAD = 9.0
"""Seconds. While two versions are alive, what one of them has dropped is rung long before it is overdue."""
FRESH = 12.0
"""A queued case that is due sooner has just been rung for."""
SLOWEST = 5.0
"""Seconds between two looks of one node at the due heads, however many nodes share the work."""

log = logging.getLogger("keepstep.sweep")


class Sweep:
    """One node's part of the recovery.

    executing: the ids of the cases that this node's pool has in hand. queues: those that it takes from.
    """

    def __init__(self, engine: Engine, executing: Callable[[], set[UUID] | None], queues: Iterable[str] = ()):
        self._engine, self._executing = engine, executing
        settings = engine.settings
        self._judge = Judge(
            lease=settings.lease_seconds,
            beat=settings.beat_seconds,
            host_id=engine.host_id,
            is_alive=process.is_alive,
        )
        self._suspects: dict[UUID, float] = {}  # lease -> when it was first seen without anybody executing it
        self._backlogged = set(queues)  # of what others put off nothing is known: look once
        self._turn = self._prune_at = 0.0
        self._fold_at: dict[str, float] = {}
        self._begun, self._undone_until = False, 0.0

    def round(self) -> None:
        """Look once at everything. Raises DatabaseUnavailable when there is nothing to look at."""
        alive = self._judge_others()
        self._audit()
        now = time.monotonic()
        if now >= self._turn:
            self._look_at_due()
            share = min(SLOWEST, self._engine.settings.beat_seconds * (alive + 1))
            self._turn = now + share * random.uniform(0.5, 1.0)
        if now >= self._prune_at:
            self._prune(alive + 1)
        self._fold(alive + 1)

    def _prune(self, nodes_alive: int) -> None:
        """Delete for a moment what is past its retention; if there is more, go on soon, else look again later."""
        limit, began = self._engine.limits.rows, time.monotonic()
        self._prune_at = began + PRUNE_EVERY  # whatever happens now
        gone = sum(some.cases for some in retention.prune(self._engine.db, limit, seconds=PRUNE_SECONDS))
        took = time.monotonic() - began
        more = gone >= limit or took >= PRUNE_SECONDS
        pause = took * PRUNE_SHARE * nodes_alive if more else PRUNE_EVERY
        self._prune_at = time.monotonic() + pause * random.uniform(0.5, 1.0)
        nodes.forget_codes(self._engine.db, limit)
        if gone:
            log.info("gone, past their retention: %s", _cases(gone, "ended "))

    def _fold(self, nodes_alive: int) -> None:
        """Fold away old checkpoints of cases that live for very long, each workflow in its own time."""
        for workflow in self._engine.registry:
            now, keep = time.monotonic(), workflow.keep_checkpoints
            if keep is None or now < self._fold_at.get(workflow.name, 0.0):
                continue
            self._fold_at[workflow.name] = now + PRUNE_EVERY  # whatever happens now
            folded = fold(self._engine.db, workflow.name, keep)
            if folded:
                log.info("%s: %d old checkpoints folded away", workflow.name, folded)
            pause = FOLD_EVERY * nodes_alive if folded else PRUNE_EVERY
            self._fold_at[workflow.name] = time.monotonic() + pause * random.uniform(0.5, 1.0)

    def forget(self) -> None:
        """The database was away: what was watched before says nothing about the nodes now."""
        self._judge.forget()
        self._suspects.clear()

    def release(self, executor: str, *, charged: bool = True) -> None:
        """A process of this node's pool has died: recover what it was running, at once. charged: to its step."""
        engine = self._engine
        recovered = recovery.recover_executor(engine.db, engine.node_id, executor, engine.limits, charged=charged)
        self._ring("a pool process died", recovered)
        self._ring_again(ahead=DEATH_AHEAD)
        self._look_for_undone()
        branches.sweep(engine, undone=True)

    # ------------------------------------------------------------------------------------------------ dead nodes
    def _judge_others(self) -> int:
        """Recover what dead nodes were running; how many other nodes live."""
        engine = self._engine
        asked = time.monotonic()
        seen = nodes.others(engine.db, engine.node_id)
        dead = self._judge.observe(seen, time.monotonic(), asked)
        for verdict in dead:
            pid = verdict.process.partition(":")[0]
            log.warning("node %s, pid %s on %s, is taken for dead: %s", verdict.id, pid, verdict.host, verdict.proof)
        if dead:
            for certain in (True, False):
                ids = [verdict.id for verdict in dead if verdict.certain == certain]
                recovered = recovery.recover_nodes(engine.db, ids, engine.limits, certain=certain)
                self._ring("a node died" if certain else "a node is silent", recovered)
            nodes.remove(engine.db, [verdict.id for verdict in dead])
            self._turn = 0.0
            self._look_for_undone()
            self._ring_again(ahead=DEATH_AHEAD)
        return len(seen) - len(dead)

    # ---------------------------------------------------------------------------------------------------- audit
    def _audit(self) -> None:
        """Running heads that name this node, but that it is not executing: a lost reply, an error of the engine."""
        engine, now = self._engine, time.monotonic()
        executing = self._executing()
        here = recovery.running_here(engine.db, engine.node_id, engine.limits.rows)
        crashed = [r for r in here if not process.is_alive(r.executor)]
        self._recover(crashed, "crashed", "its process died", certain=True)
        idle = {} if executing is None else {r.lease: r for r in here if r.case not in executing}
        self._suspects = {lease: self._suspects.get(lease, now) for lease in idle}
        orphans = [idle[lease] for lease, since in self._suspects.items() if now - since >= AUDIT_SECONDS]
        self._recover(orphans, "orphaned", "its node does not execute it", certain=False)

    def _recover(self, running: list[Running], outcome: str, message: str, *, certain: bool) -> None:
        engine = self._engine
        recovered = recovery.recover_leases(
            engine.db, running, engine.limits, charge="crashes", outcome=outcome, message=message, certain=certain
        )
        self._ring(message, recovered)

    # ------------------------------------------------------------------------------------------------ due heads
    def _look_at_due(self) -> None:
        engine, db, limits = self._engine, self._engine.db, self._engine.limits
        engine.bell.ring(recovery.wake(db, limits))
        self._ring_again()
        if nodes.mixed(db):
            self._ring_dropped()
        self._ring("past its deadline", recovery.recover_overdue(db, limits))
        self._ring("its node is gone", recovery.recover_unowned(db, limits))
        for case in recovery.overdue_waits(db, limits):
            self._one_case(waits.expire, case)
        for case in recovery.undelivered(db, limits):
            self._one_case(waits.deliver, case)
        # of what happened before this node began nothing is known: look once
        branches.sweep(engine, undone=not self._begun or time.monotonic() < self._undone_until)
        self._begun = True
        ring_hooks(engine)
        recovery.look_again(db, limits)

    def _look_for_undone(self) -> None:
        """For a lease from now on: what the dead had locked is passed over until then, at the most."""
        self._undone_until = time.monotonic() + self._engine.settings.lease_seconds

    def _one_case(self, act: Callable[..., Ring | None], case: UUID) -> None:
        """One case that can't be moved must not keep the others."""
        engine = self._engine
        try:
            limit = engine.settings.max_state_bytes
            ring = act(engine.db, case, engine.registry, max_bytes=limit, patient=False)  # it comes by again
        except DatabaseUnavailable:
            raise
        except Exception:
            log.exception("case %s can't be moved; put off for a minute", case)
            recovery.put_off(self._engine.db, case)
        else:
            self._engine.bell.ring([ring] if ring else [])
            if ring is None:
                branches.look_above(engine, case)

    def _ring_again(self, ahead: float = 0.0) -> None:
        """Only where the broker's queue is empty: a real backlog must not be flooded with a second message each."""
        engine = self._engine
        queues = set(recovery.overdue_queues(engine.db, ahead=ahead))
        empty = {queue for queue in queues | self._backlogged if engine.bell.depth(queue) == 0}
        self._ring_queues(empty & queues, ahead)
        # what was put off, of a queue that is empty by now: its messages are worked off, or lost
        for queue in empty & self._backlogged:
            if self._ring_queues({queue}, BACKLOG_SECONDS, beyond=FRESH) < engine.limits.rows:
                self._backlogged.discard(queue)
        for queue in queues - empty:
            self._ring_lost(queue, BACKLOG_SECONDS if ahead else 0.0)
        if recovery.put_off_backlog(engine.db, sorted(empty), BACKLOG_SECONDS, engine.limits):
            self._backlogged |= queues - empty

    def _ring_dropped(self) -> None:
        """A deploy is under way: messages that came to a worker which can't load their case."""
        engine = self._engine
        queues = set(recovery.overdue_queues(engine.db, ahead=MIXED_AHEAD))
        empty = {queue for queue in queues if engine.bell.depth(queue) == 0}
        engine.bell.ring(recovery.ring_dropped(engine.db, sorted(empty), engine.limits, ahead=MIXED_AHEAD))
        for queue in queues - empty:
            self._ring_lost(queue, BACKLOG_SECONDS - MIXED_AHEAD)

    def _ring_lost(self, queue: str, ahead: float) -> None:
        """In a queue that has a backlog: what is older than the oldest message has none."""
        engine = self._engine
        for oldest in engine.bell.oldest(queue):
            lost = recovery.ring_lost(engine.db, oldest, engine.limits, ahead=ahead, seconds=BACKLOG_SECONDS)
            if lost:
                log.info("ringing %s again on %s, behind a backlog", _cases(len(lost)), queue)
                engine.bell.ring(lost)
                engine.tallies.count("rung_again", len(lost))

    def _ring_queues(self, queues: set[str], ahead: float, *, beyond: float = -1e9) -> int:
        db, limits = self._engine.db, self._engine.limits
        again = recovery.ring_again(db, sorted(queues), limits, ahead=ahead, beyond=beyond)
        if again:
            log.info("ringing %s again on %s", _cases(len(again)), ", ".join(sorted(queues)))
            self._engine.bell.ring(again)
            self._engine.tallies.count("rung_again", len(again))
        return len(again)

    def _ring(self, why: str, recovered: Recovery) -> None:
        if recovered.rings or recovered.held:
            log.warning("recovered %s, held %d: %s", _cases(len(recovered.rings)), recovered.held, why)
        self._engine.bell.ring(recovered.rings)


def _cases(count: int, kind: str = "") -> str:
    return f"{count} {kind}{'case' if count == 1 else 'cases'}"
