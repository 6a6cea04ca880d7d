"""Publish: ring the doorbell. A message carries ids only; a ring that fails is only a delay, the sweep rings again."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from celery import Celery
from kombu.exceptions import ChannelError, OperationalError
from redis.exceptions import RedisError

from keepstep.checkpoint.ring import Ring

TASK = "keepstep.step"
"""The one task name of every step: an unknown name would be thrown away by a worker of the release before."""

KILL_GRACE = 10.0
"""Seconds between the interruption of a step at its timeout and the killing of its process."""

BROKER_ERRORS = (OperationalError, RedisError, OSError)

log = logging.getLogger("keepstep.publish")


class Bell:
    """Sends the messages of one Celery app. show_thread_ids: whether they appear in Flower."""

    def __init__(self, app: Celery, *, show_thread_ids: bool = True):
        self.app, self._show = app, show_thread_ids

    def ring(self, rings: Iterable[Ring]) -> int:
        """Send the messages; how many could be sent. Never raises because of the broker."""
        sent = 0
        for ring in rings:
            try:
                self._send(ring)
            except BROKER_ERRORS as error:
                log.warning(
                    "%s/%s: the broker can't be reached, the sweep rings again later: %s",
                    ring.workflow,
                    ring.thread_id,
                    error,
                )
                return sent
            sent += 1
        return sent

    def _send(self, ring: Ring) -> None:
        shown = repr(ring.thread_id) if self._show else str(ring.case)
        self.app.send_task(
            TASK,
            args=(str(ring.case), ring.seq),
            queue=ring.queue,
            shadow=f"{ring.workflow}.{ring.step}",
            argsrepr=f"({shown}, {ring.seq})",
            kwargsrepr="{}",
            soft_time_limit=ring.timeout,
            time_limit=ring.timeout + KILL_GRACE,
            ignore_result=True,
            retry=False,
        )

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
