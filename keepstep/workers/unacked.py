"""What keepstep's own messages need of kombu's book-keeping: nothing in Redis.

Stock kombu writes each message that a worker has taken into a hash, and removes it when it is acknowledged: two more
round trips, half of what a worker's main process does. For a doorbell that is waste: whatever a killed worker had taken
is rung for again by the sweep. Other tasks' messages on the same channel are kept as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kombu.transport import redis as stock
from kombu.transport import virtual
from kombu.utils.json import dumps

from keepstep.workers.envelope import HOOK_TASK, TASK

log = logging.getLogger("keepstep.publish")

_OURS = {TASK, HOOK_TASK}


class LightQoS(stock.QoS):
    """Keeps keepstep's unacknowledged messages in this process's memory only."""

    def can_consume(self) -> bool:
        """Whether there is room. What a read that is under way may bring is taken in any case: nobody else sees it."""
        return bool(super().can_consume()) or self.channel.is_taking_many()

    def append(self, message: Any, delivery_tag: str) -> None:
        """Remember a message that was taken."""
        if _is_ours(message):
            virtual.QoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """It is done."""
        if _is_ours(self._delivered.get(delivery_tag)):
            virtual.QoS.ack(self, delivery_tag)
        else:
            super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """It is not, and goes back to the head of its queue, or is dropped."""
        message = self._delivered.get(delivery_tag)
        if not _is_ours(message):
            super().reject(delivery_tag, requeue)
            return
        if requeue:
            self._put_back(message, leftmost=True)
        virtual.QoS.ack(self, delivery_tag)

    def put_back(self, delivery_tags: Iterable[str]) -> None:
        """Give messages of ours that nobody has begun with back to their queues, as they came, to be taken next.

        The last one is taken first. All go in one round trip: a worker that is busy gives many back at a time.
        """
        channel, lists = self.channel, dict[str, list[str]]()
        for tag in delivery_tags:
            message = self._delivered.get(tag)
            if message is None:  # the connection was lost since, and this with it
                continue
            virtual.QoS.ack(self, tag)
            raw, to = message._raw, message.delivery_info
            priority = channel._get_message_priority(raw, reverse=False)
            for queue in channel._lookup(to["exchange"], to["routing_key"]):
                lists.setdefault(channel._q_for_pri(queue, priority), []).append(dumps(raw))
        if lists:
            with channel.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
                for name, messages in lists.items():
                    pipe.rpush(name, *messages)
                pipe.execute()

    def restore_unacked(self, client: Any = None) -> None:
        """Give back what this worker had taken, as it ends in order."""
        self._flush()
        ours = [(tag, message) for tag, message in self._delivered.items() if _is_ours(message)]
        for tag, message in ours:
            del self._delivered[tag]
            try:
                self._put_back(message, leftmost=False)
            except self.channel.connection_errors as error:
                log.warning("a message could not be put back, the sweep rings again: %s", error)
        super().restore_unacked(client)

    def _put_back(self, message: Any, *, leftmost: bool) -> None:
        to = message.delivery_info
        with self.channel.conn_or_acquire() as client:
            self.channel._do_restore_message(message._raw, to["exchange"], to["routing_key"], client, leftmost)


def _is_ours(message: Any) -> bool:
    return message is not None and message.headers.get("task") in _OURS
