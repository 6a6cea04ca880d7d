"""Celery's way of a step's message through a worker, without what a step doesn't need.

The main process makes a slim request: no copies of headers, no ETA, no results. The pool's process calls `execute`
without Celery's tracer. Requests, `inspect`, `revoke`, events, time limits, warm shutdown and the death of a pool
process are Celery's own as ever; whatever is unusual about a message leaves it to the stock strategy. So does anybody
who listens to Celery's signals for tasks (tracing tools do), since only the tracer sends those.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID
from weakref import ref

from billiard.einfo import ExceptionInfo
from celery import signals
from celery.exceptions import TaskRevokedError
from celery.utils.serialization import get_pickleable_exception
from celery.worker import state
from celery.worker.request import Request
from celery.worker.strategy import default as stock_strategy

from keepstep.checkpoint import recovery
from keepstep.checkpoint.ring import Delivery
from keepstep.workers.engine import Engine
from keepstep.workers.execute import Ran, execute, execute_batch
from keepstep.workers.gather import Gather

log = logging.getLogger("keepstep.step")

_engines: list[Engine] = []
"""The engine of this process, known before the pool is forked."""

_TRACED = (signals.task_prerun, signals.task_postrun, signals.task_success, signals.task_failure)


class SlimRequest(Request):
    """A step's request: what its headers say, and nothing that is made of them.

    gather: where it waits for the pool. alone: it may not run in company with others. accompanied: it does.
    """

    time_start: float | None
    worker_pid: int | None

    def __init__(  # not the base's own
        self, message: Any, on_ack: Any, on_reject: Any, consumer: Any, task: Any, gather: Gather | None
    ):
        self._gather, self.alone, self.accompanied = gather, False, False
        headers = self._request_dict = message.headers.copy()  # the message may have to go back as it came
        self._message, self._app, self._task, self._utc, self._decoded = message, consumer.app, task, True, False
        self._body, self._content_type, self._content_encoding = (
            message.body,
            message.content_type,
            message.content_encoding,
        )
        self.id, self._type, self.name = headers["id"], headers["task"], headers["shadow"]
        self._root_id, self._parent_id = headers["root_id"], None
        self.time_limits = headers["timelimit"]
        self._argsrepr, self._kwargsrepr = headers["argsrepr"], headers["kwargsrepr"]
        self._on_ack, self._on_reject, self._hostname = on_ack, on_reject, consumer.hostname
        self._eventer, self._connection_errors = consumer.event_dispatcher, consumer.connection_errors
        self._ignore_result, self._eta, self._expires = True, None, None
        to = message.delivery_info
        self._delivery_info = {
            "exchange": to.get("exchange"),
            "routing_key": to.get("routing_key"),
            "priority": message.properties.get("priority"),
            "redelivered": headers.get("redelivered", False),
        }
        payload = json.loads(self._body)
        UUID(payload[0][0]), int(payload[0][1])
        self._Request__payload = payload
        self._args, self._kwargs = payload[0], payload[1]
        headers.update(
            properties=message.properties,
            reply_to=None,
            correlation_id=self.id,
            hostname=self._hostname,
            delivery_info=self._delivery_info,
            args=self._args,
            kwargs=self._kwargs,
        )

    def on_success(self, failed__retval__runtime: Any, **options: Any) -> None:
        """Send the events of the steps that ran inline, each as a task of its own, and then of this one."""
        failed, told, runtime = failed__retval__runtime
        if not failed and isinstance(told, tuple):
            worked, inlined = told
            if self._gather is not None and worked is not None:
                self._gather.pace.note(self.name, worked)
            if inlined and self._eventer and self._eventer.enabled and self._task.send_events:
                for number, step in enumerate(inlined, 1):
                    self._send_events(f"{self.id}.{number}", *step)
            failed__retval__runtime = 0, "None", runtime
        super().on_success(failed__retval__runtime, **options)

    def _send_events(self, task_id: str, name: str, shown: str, at: float, took: float) -> None:
        send, common = self._eventer.send, {"uuid": task_id, "root_id": self.id, "parent_id": self.id}
        send(
            "task-received",
            **common,
            name=name,
            args=shown,
            kwargs="{}",
            retries=0,
            eta=None,
            expires=None,
            timestamp=at,
        )
        send("task-started", uuid=task_id, timestamp=at)
        send("task-succeeded", uuid=task_id, result="None", runtime=took, timestamp=at + took)

    def run_alone(self) -> None:
        """It has not run, and is to run by itself: as if no process had had it yet."""
        self.alone, self.accompanied, self.time_start, self.worker_pid = True, False, None, None

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """End its process, unless that is busy with another step of its company: a slow one has it for itself."""
        if self.accompanied and self.time_start:
            engine, its = _engines[0], (UUID(self._args[0]), str(self.worker_pid))
            running = recovery.running_here(engine.db, engine.node_id, engine.limits.rows)
            if its not in {(one.case, one.executor.partition(":")[0]) for one in running}:
                log.info("%s[%s] is revoked, but it doesn't run: nothing is ended", self.name, self.id)
                return
        super().terminate(pool, signal)

    def lose_company(self) -> None:
        """Somebody in its company was revoked, and its process ended. It is done, or has gone back: no fault of its."""
        state.task_ready(self)
        self.reject(requeue=False)

    def leave(self) -> str:
        """It goes back to its queue as it came, by its delivery tag: nothing is to be acknowledged any more."""
        state.task_ready(self)
        self.acknowledged = True
        return str(self._message.delivery_tag)

    def execute_using_pool(self, pool: Any, **_: Any) -> Any:
        """Hand the step to a process of the pool."""
        if self.id in state.revoked and self.revoked():
            raise TaskRevokedError(self.id)
        hard, soft = self.time_limits
        case, seq = self._args[0], self._args[1]
        result = pool.apply_async(
            run,
            args=(case, seq, bool(self._delivery_info["redelivered"]), soft),
            accept_callback=self.on_accepted,
            timeout_callback=self.on_timeout,
            callback=self.on_success,
            error_callback=self.on_failure,
            soft_timeout=soft,
            timeout=hard,
            correlation_id=self.id,
        )
        self._apply_result = None if result is None else ref(result)
        return result


def run(case: str, seq: int, redelivered: bool, limit: float | None) -> tuple[int, Any, float]:
    """Run a step in a process of the pool; the result is as Celery's tracer gives it. limit: the soft one, seconds."""
    began = time.monotonic()
    try:
        ran = execute(_engines[0], Delivery(case=UUID(case), seq=seq), redelivered=redelivered, limit=limit)
    except Exception as error:
        log.exception("case %s, checkpoint %s: an error of the engine", case, seq)
        return _failure(error, began)
    return 0, _told(ran), time.monotonic() - began


def run_batch(pairs: Sequence[tuple[str, int]], limit: float | None) -> tuple[int, Any, float]:
    """Run quick steps in a process of the pool; the result holds what `run` tells of each. limit: as there, of all.

    None is told of one that may only run alone.
    """
    began = time.monotonic()
    try:
        ran = execute_batch(_engines[0], [Delivery(case=UUID(case), seq=seq) for case, seq in pairs], limit)
    except Exception as error:
        log.exception("a batch of %s cases: an error of the engine", len(pairs))
        return _failure(error, began)
    return 0, [None if steps is None else _told(steps) for steps in ran], time.monotonic() - began


def _told(ran: Sequence[Ran]) -> tuple[float | None, list[tuple[str, str, float, float]]]:
    """What the main process is told of a delivery: how long its step worked, and the steps that followed it inline.

    Without the time, if it did not run, or was interrupted.
    """
    return (ran[0].worked or None, [_shown(inlined) for inlined in ran[1:]]) if ran else (None, [])


def _failure(error: Exception, began: float) -> tuple[int, Any, float]:
    """An error of the engine, as Celery's tracer tells it; the sweep recovers."""
    told = get_pickleable_exception(error)
    return 1, ExceptionInfo((type(told), told, error.__traceback__)), time.monotonic() - began


def _shown(ran: Ran) -> tuple[str, str, float, float]:
    """An inlined step as its events name it."""
    claim = ran.claim
    shown = _engines[0].bell.shown(claim.thread_id, claim.delivery.case, claim.delivery.seq)
    return f"{claim.workflow}.{claim.step}", shown, ran.at, ran.took


def _gather(engine: Engine, consumer: Any) -> Gather | None:
    """Where the steps wait for a pool of processes, if it may be given batches."""
    controller, most = consumer.controller, engine.settings.batch
    if most == 1 or controller.process_task != controller._process_task_sem:
        return None
    before = getattr(consumer, "keepstep_gather", None)
    if before is not None:  # Celery asks for its strategies again when its pool is restarted
        before.close()
    gather = consumer.keepstep_gather = Gather(consumer, most, run_batch, engine.may_join)
    return gather


def strategy(engine: Engine) -> Callable[..., Any]:
    """The strategy for the step's task of this engine's app."""
    _engines[:] = [engine]

    def slim(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., Any]:
        stock: Callable[..., Any] = stock_strategy(task, app, consumer, **options)
        if any(signal.receivers for signal in _TRACED):
            return stock
        eventer, received = consumer.event_dispatcher, signals.task_received
        events = eventer and eventer.enabled and task.send_events
        known = tuple(f"{name}." for name in engine.registry.versions)
        gather = _gather(engine, consumer)
        handle = consumer.on_task_request if gather is None else gather.add

        def handler(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any, **more: Any) -> Any:
            headers = message.headers
            usual = body is None and str(headers.get("shadow") or "").startswith(known) and not callbacks
            if not usual or headers.get("eta") or headers.get("expires") or headers.get("stamped_headers"):
                return stock(message, body, ack, reject, callbacks, **more)
            try:
                request = SlimRequest(message, ack, reject, consumer, task, gather)
            except (KeyError, IndexError, TypeError, ValueError):  # somebody else made it
                return stock(message, body, ack, reject, callbacks, **more)
            if request.id in state.revoked and request.revoked():
                return None
            if received.receivers:
                received.send(sender=consumer, request=request)
            if events:
                eventer.send(
                    "task-received",
                    uuid=request.id,
                    name=request.name,
                    args=request.argsrepr,
                    kwargs=request.kwargsrepr,
                    root_id=request.root_id,
                    parent_id=None,
                    retries=0,
                    eta=None,
                    expires=None,
                )
            state.task_reserved(request)
            handle(request)
            return None

        return handler

    return slim
