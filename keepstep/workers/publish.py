"""Publish: ring the doorbell. A message carries ids only; a ring that fails is only a delay, the sweep rings again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any
from uuid import UUID

from celery import Celery
from kombu import exceptions
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import RedisError

from keepstep.checkpoint.hooks import DueHook
from keepstep.checkpoint.ring import Delivery, Ring
from keepstep.config.celery_options import broker_priority
from keepstep.steps.hooks import HOOK_SECONDS
from keepstep.workers.envelope import HOOK_TASK, KILL_GRACE, TASK, envelope, named_by
from keepstep.workers.failpoints import reach
from keepstep.workers.line import Line

HOOK_GRACE = 10.0
"""Seconds between the interruption of a hook and the killing of its process: it is due again after that."""

BATCH = 500
"""Messages that are sent at once."""

BROKER_ERRORS = (
    OperationalError,
    getattr(exceptions, "BatchPublishError", OperationalError),  # from kombu 5.7 on
    RedisError,
    OSError,
)

log = logging.getLogger("keepstep.publish")


class Bell:
    """Sends the messages of one Celery app.

    show_thread_ids: whether they appear in Flower. lean: push them to Redis directly, where the broker is Redis. slack:
    by how many seconds a message of a workflow may take longer than its step's timeout.
    """

    def __init__(
        self,
        app: Celery,
        *,
        show_thread_ids: bool = True,
        lean: bool = True,
        slack: Callable[[str], float] = lambda _workflow: 0.0,
    ):
        self.app, self._show, self._slack = app, show_thread_ids, slack
        self._line = Line(app) if lean else None

    def ring(self, rings: Iterable[Ring], *, first: bool = False) -> int:
        """Send the messages, many at a time; how many could be sent. Never raises because of the broker.

        first: to be taken before all others of their queue and priority, where the broker is Redis.
        """
        all_rings, sent = list(rings), 0
        for begin in range(0, len(all_rings), BATCH):
            some = all_rings[begin : begin + BATCH]
            try:
                self._send_all(some, first=first)
            except BROKER_ERRORS as error:
                what = f"{some[0].workflow}/{some[0].thread_id}" + (f" and {len(some) - 1} more" if some[1:] else "")
                log.warning("%s: the broker can't be reached, the sweep rings again later: %s", what, error)
                return sent
            sent += len(some)
        return sent

    def _send_all(self, rings: Sequence[Ring], *, first: bool) -> None:
        for ring in rings:
            reach("ringing", ring.case, ring.seq)
        if self._line is not None and self._line.is_there():
            self._line.push(self._envelopes(rings), first=first)
        else:
            self._send_by_celery(rings)

    def _envelopes(self, rings: Sequence[Ring]) -> dict[tuple[str, int], list[str]]:
        """The messages by (queue, kombu's priority), each list in order."""
        made: dict[tuple[str, int], list[str]] = {}
        for ring in rings:
            priority = broker_priority(ring.priority)
            message = envelope(
                str(ring.case),
                ring.seq,
                shadow=f"{ring.workflow}.{ring.step}",
                shown=self.shown(ring.thread_id, ring.case, ring.seq),
                queue=ring.queue,
                timeout=ring.timeout + self._slack(ring.workflow),
                priority=priority,
            )
            made.setdefault((ring.queue, priority), []).append(message)
        return made

    def shown(self, thread_id: str, case: UUID, seq: int) -> str:
        """A message's arguments as people see them in Flower."""
        return f"({thread_id!r}, {seq})" if self._show else f"({case}, {seq})"

    def _send_by_celery(self, rings: Sequence[Ring]) -> None:
        """Send them in one pipeline, where kombu can (from 5.7 on)."""
        with self.app.producer_or_acquire() as producer:
            batch = getattr(producer, "batch", None) if len(rings) > 1 else None
            with nullcontext() if batch is None else batch(max_size=BATCH):
                for ring in rings:
                    self._send(ring, producer)

    def _send(self, ring: Ring, producer: Any) -> None:
        self.app.send_task(
            TASK,
            args=(str(ring.case), ring.seq),
            queue=ring.queue,
            priority=broker_priority(ring.priority),
            producer=producer,
            shadow=f"{ring.workflow}.{ring.step}",
            argsrepr=self.shown(ring.thread_id, ring.case, ring.seq),
            kwargsrepr="{}",
            soft_time_limit=ring.timeout + self._slack(ring.workflow),
            time_limit=ring.timeout + self._slack(ring.workflow) + KILL_GRACE,
            ignore_result=True,
            retry=False,
        )

    def oldest(self, queue: str) -> list[Delivery]:
        """What the next messages of a queue name, one for each priority in use; none where that can't be told."""
        if self._line is None:
            return []
        try:
            found = self._line.oldest(queue) if self._line.is_there() else []
        except BROKER_ERRORS:
            return []
        return [delivery for _, message in found if (delivery := named_by(message)) is not None]

    def close(self) -> None:
        """Hang up. A ring after that opens the line again."""
        if self._line is not None:
            self._line.close()

    def ring_hook(self, hook: DueHook, queue: str) -> bool:
        """Have a hook called. False: the broker is away, and nobody was told."""
        shown = repr(hook.thread_id) if self._show else str(hook.id)
        try:
            self.app.send_task(
                HOOK_TASK,
                args=(hook.id,),
                queue=queue,
                shadow=f"{hook.workflow}.on_{hook.event}",
                argsrepr=f"({shown},)",
                kwargsrepr="{}",
                soft_time_limit=HOOK_SECONDS,
                time_limit=HOOK_SECONDS + HOOK_GRACE,
                ignore_result=True,
                retry=False,
            )
        except BROKER_ERRORS as error:
            log.warning("%s/%s: the broker can't be reached: %s", hook.workflow, hook.thread_id, error)
            return False
        return True

    def depth(self, queue: str) -> int | None:
        """How many messages wait in the queue; None if the broker doesn't say."""
        try:
            with self.app.connection_or_acquire() as connection:
                declared: Any = connection.default_channel.queue_declare(queue=queue, passive=True)
                return int(declared.message_count)
        except ChannelError:
            return 0  # Redis has no empty lists: a queue that isn't there has nothing in it
        except BROKER_ERRORS:
            return None
