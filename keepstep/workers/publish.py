"""Publish: ring the doorbell. A message carries ids only; a ring that fails is only a delay, the sweep rings again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from celery import Celery
from kombu import exceptions
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import RedisError

from keepstep.checkpoint.hooks import DueHook
from keepstep.checkpoint.ring import Ring
from keepstep.config.celery_options import broker_priority
from keepstep.workers.failpoints import reach

TASK = "keepstep.step"
"""The one task name of every step: an unknown name would be thrown away by a worker of the release before."""

HOOK_TASK = "keepstep.hook"
"""The task name of every hook."""

KILL_GRACE = 10.0
"""Seconds between the interruption of a step at its timeout and the killing of its process."""

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
    """Sends the messages of one Celery app. show_thread_ids: whether they appear in Flower."""

    def __init__(self, app: Celery, *, show_thread_ids: bool = True):
        self.app, self._show = app, show_thread_ids

    def ring(self, rings: Iterable[Ring]) -> int:
        """Send the messages, many at a time; how many could be sent. Never raises because of the broker."""
        all_rings, sent = list(rings), 0
        for begin in range(0, len(all_rings), BATCH):
            some = all_rings[begin : begin + BATCH]
            try:
                self._send_all(some)
            except BROKER_ERRORS as error:
                what = f"{some[0].workflow}/{some[0].thread_id}" + (f" and {len(some) - 1} more" if some[1:] else "")
                log.warning("%s: the broker can't be reached, the sweep rings again later: %s", what, error)
                return sent
            sent += len(some)
        return sent

    def _send_all(self, rings: Sequence[Ring]) -> None:
        """Send them in one pipeline, where kombu can (from 5.7 on)."""
        with self.app.producer_or_acquire() as producer:
            batch = getattr(producer, "batch", None) if len(rings) > 1 else None
            with nullcontext() if batch is None else batch(max_size=BATCH):
                for ring in rings:
                    self._send(ring, producer)

    def _send(self, ring: Ring, producer: Any) -> None:
        reach("ringing", ring.case, ring.seq)
        shown = repr(ring.thread_id) if self._show else str(ring.case)
        self.app.send_task(
            TASK,
            args=(str(ring.case), ring.seq),
            queue=ring.queue,
            priority=broker_priority(ring.priority),
            producer=producer,
            shadow=f"{ring.workflow}.{ring.step}",
            argsrepr=f"({shown}, {ring.seq})",
            kwargsrepr="{}",
            soft_time_limit=ring.timeout,
            time_limit=ring.timeout + KILL_GRACE,
            ignore_result=True,
            retry=False,
        )

    def ring_hook(self, hook: DueHook, queue: str) -> None:
        """Have a hook called. If the broker is away, it is due again in a minute."""
        shown = repr(hook.thread_id) if self._show else str(hook.id)
        try:
            self.app.send_task(
                HOOK_TASK,
                args=(hook.id,),
                queue=queue,
                shadow=f"{hook.workflow}.on_{hook.event}",
                argsrepr=f"({shown},)",
                kwargsrepr="{}",
                ignore_result=True,
                retry=False,
            )
        except BROKER_ERRORS as error:
            log.warning("%s/%s: the broker can't be reached: %s", hook.workflow, hook.thread_id, error)

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
