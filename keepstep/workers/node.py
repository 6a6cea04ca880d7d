"""A worker's main process: it beats, watches its pool, sweeps, and leaves in order. A bootstep of Celery's worker."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from celery import bootsteps, signals
from celery.worker import state as worker_state
from sqlalchemy.exc import SQLAlchemyError

from keepstep._version import __version__
from keepstep.checkpoint import nodes, recovery
from keepstep.checkpoint.nodes import Node
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.steps.fingerprint import fingerprint
from keepstep.workers import process
from keepstep.workers.children import Children
from keepstep.workers.engine import Engine
from keepstep.workers.heartbeat import ChildHeartbeat, ThreadHeartbeat
from keepstep.workers.preflight import refuse_green_threads, wait_for_schema, warn_of_idle_queues
from keepstep.workers.shutdown import Shutdown
from keepstep.workers.sweep import Sweep
from keepstep.workers.timers import TIDY, forget_cancelled

REFRESH = 0.2
"""Seconds after which a pool process that has just been started is watched."""

MAINTAIN = 0.2
"""Seconds between two looks of the pool after its processes."""

log = logging.getLogger("keepstep.node")


def node_step(engine: Engine) -> type[bootsteps.StartStopStep]:
    """The bootstep for this engine, to be added to a Celery app's worker blueprint."""

    class NodeStep(bootsteps.StartStopStep):
        """keepstep's part of the worker."""

        requires = ("celery.worker.components:Pool",)

        def __init__(self, worker: Any, **options: Any):
            super().__init__(worker, **options)
            refuse_green_threads(worker)
            warn_of_idle_queues(set(worker.app.amqp.queues.consume_from), engine.registry)
            engine.resize(_threads(worker))
            wait_for_schema(engine.db)
            self.threads: NodeThreads | None = None
            self.shutdown: Shutdown | None = None
            self.timers: list[Any] = []

        def start(self, worker: Any) -> None:
            pids = _pool_pids(worker)
            self.threads = NodeThreads(engine, _node(engine, worker), pids)
            self.threads.start()
            self.shutdown = Shutdown(engine.settings.shutdown_seconds, pids, self.threads)
            signals.worker_shutting_down.connect(self.told_to_end, weak=False)

        def register_with_event_loop(self, worker: Any, hub: Any) -> None:
            """Called whenever the loop begins: before 5.7 Celery clears all timers when it loses the broker."""
            for timer in self.timers:
                timer.cancel()
            self.timers = [hub.call_repeatedly(TIDY, partial(forget_cancelled, hub.timer))]
            maintain = getattr(getattr(worker.pool, "_pool", None), "maintain_pool", None)
            if maintain is not None:
                # every five seconds is Celery's own: until then a dead process's message takes up the worker's room
                self.timers.append(hub.call_repeatedly(MAINTAIN, maintain))

        def told_to_end(self, how: str = "", **_: Any) -> None:
            """SIGTERM has come; nothing more is taken, and the steps in flight have their time."""
            if how == "Warm" and self.shutdown is not None:
                self.shutdown.begin()

        def stop(self, worker: Any) -> None:
            """The pool first: while its last steps finish, this node must be seen to live."""
            worker.pool.stop()
            if self.shutdown is not None:
                self.shutdown.over()
            self.leave()

        def terminate(self, worker: Any) -> None:
            """The pool first here too, but it is killed; what it was running goes back."""
            if self.threads is not None:
                self.threads.charge_nobody()
            worker.pool.terminate()
            self.leave()

        def leave(self) -> None:
            if self.threads is not None:
                self.threads.stop()
                self.threads = None

    return NodeStep


class NodeThreads:
    """The heartbeat, and the threads that sweep and that watch the pool."""

    def __init__(self, engine: Engine, node: Node, pids: Callable[[], Iterable[int]] | None):
        self._engine, self._node = engine, node
        self._forks = pids is not None
        self._heartbeat = self._new_heartbeat()
        self._sweep = Sweep(engine, executing, node.queues)
        self._children = Children(pids) if pids is not None else None
        self._told: dict[str, int] = {}
        self._over = threading.Event()
        self._charged = True
        self._threads = [threading.Thread(target=self._sweeping, name="keepstep-sweep", daemon=True)]
        if self._children is not None:
            self._threads.append(threading.Thread(target=self._watching, name="keepstep-children", daemon=True))

    def _new_heartbeat(self) -> ThreadHeartbeat | ChildHeartbeat:
        settings = self._engine.settings
        kind = ThreadHeartbeat if self._forks else ChildHeartbeat
        return kind(settings.heartbeat_url or settings.database_url, self._node, settings.beat_seconds)

    def start(self) -> None:
        """Appear among the nodes, and begin. Before the first sweep, which rings only what a node can load."""
        try:
            with self._engine.db.connect() as connection:
                nodes.beat(connection, self._node)
        except DatabaseUnavailable as error:
            log.warning("the heartbeat registers this node later: %s", error)
        self._heartbeat.start()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Leave in order, after the pool: what it left running goes back, and the node is forgotten."""
        engine = self._engine
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=10)
        self.give_back()
        try:
            self._heartbeat.stop()  # or its next beat would register the node anew
            nodes.remove(engine.db, [self._node.id])
        except (DatabaseUnavailable, SQLAlchemyError) as error:
            log.warning("could not say goodbye, the others will notice: %s", error)

    def charge_nobody(self) -> None:
        """From now on the end of a pool process is this worker's doing, and no fault of its step."""
        self._charged = False

    def give_back(self) -> None:
        """What this node still runs goes to others, at once."""
        self.charge_nobody()
        engine = self._engine
        try:
            left = recovery.release_node(engine.db, self._node.id, engine.limits)
            engine.bell.ring(left.rings)
        except (DatabaseUnavailable, SQLAlchemyError) as error:
            log.warning("could not give back what was running, the others will notice: %s", error)

    def _sweeping(self) -> None:
        while not self._over.is_set():
            if not self._heartbeat.is_alive():
                log.error("the heartbeat has ended; starting another one")
                self._heartbeat = self._new_heartbeat()
                self._heartbeat.start()
            self._guarded(self._sweep.round)
            self._guarded(self._tell)
            self._over.wait(self._engine.settings.beat_seconds)

    def _tell(self) -> None:
        """Write down what this node has counted, if that is more than before."""
        counted = self._engine.tallies.counted()
        if counted != self._told:
            nodes.tell(self._engine.db, self._node.id, counted)
            self._told = counted

    def _watching(self) -> None:
        assert self._children is not None  # this thread runs only then
        while not self._over.is_set():
            for executor in self._children.wait(REFRESH):
                if not self._over.is_set():
                    self._guarded(partial(self._sweep.release, executor, charged=self._charged))
        self._children.close()

    def _guarded(self, act: Callable[[], None]) -> None:
        """Whatever goes wrong in one round, the next one comes: recovery must not end before the worker does."""
        try:
            act()
        except DatabaseUnavailable as error:
            log.warning("no sweep: %s", error)
            if error.lost:  # else the nodes were in sight all the time
                self._sweep.forget()
        except Exception:
            log.exception("a round of the sweep failed; the next one tries again")


def executing() -> set[UUID] | None:
    """The cases of which this worker has a message in hand; None if that can't be told just now."""
    try:
        requests = list(worker_state.reserved_requests) + list(worker_state.active_requests)
    except RuntimeError:  # the set changed while it was read
        return None
    found = set()
    for request in requests:
        with suppress(ValueError, IndexError, TypeError):  # somebody else's task, on a team's own app
            found.add(UUID(str(request.args[0])))
    return found


def _threads(worker: Any) -> int:
    """Steps that one process of the pool may run at once."""
    return 1 if worker.pool_cls.__module__.endswith("prefork") else int(worker.concurrency or 1)


def _node(engine: Engine, worker: Any) -> Node:
    return Node(
        id=engine.node_id,
        host=socket.gethostname(),
        host_id=engine.host_id,
        process=process.executor(),
        queues=tuple(worker.app.amqp.queues.consume_from),
        workflows=engine.registry.versions,
        steps=engine.registry.steps,
        step_queues=engine.registry.step_queues,
        pool=worker.pool_cls.__module__.rpartition(".")[2],
        concurrency=int(worker.concurrency or 1),
        version=__version__,
        code=engine.settings.code_version,
        fingerprints={workflow.name: fingerprint(workflow) for workflow in engine.registry},
    )


def _pool_pids(worker: Any) -> Callable[[], Iterable[int]] | None:
    """How to list the pool's processes; None for pools of threads."""
    pool = getattr(worker.pool, "_pool", None)
    if pool is None or not hasattr(pool, "_pool"):
        return None
    return lambda: [child.pid for child in list(pool._pool) if child.pid]
