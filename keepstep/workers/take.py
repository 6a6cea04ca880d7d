"""Messages are taken several at a time, as many as the worker has room for: one round trip for all that has arrived.

Where the server knows BLMPOP (Redis 7, Valkey). Elsewhere one at a time, as kombu does it.
"""

from __future__ import annotations

import logging
import time
from queue import Empty
from typing import Any

from kombu.transport import redis as stock
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import loads
from redis.exceptions import ResponseError

log = logging.getLogger("keepstep.publish")

MOST = 32
"""Messages that are taken at once, at the most: other workers want some, too."""


class TakesMany(stock.Channel):
    """A channel whose blocking read may bring more than one message. Its place in kombu's event loop stays the same."""

    _knows_many: bool | None = None
    _took_many = False
    _in_poll: Any
    _brpop_sent_at: Any

    def _brpop_start(self, timeout: Any = None) -> None:
        room = min(self.qos.can_consume_max_estimate() or 1, MOST)
        self._took_many = room > 1 and self._server_knows_many()
        if not self._took_many:
            super()._brpop_start(timeout)
            return
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        prefix = self.global_keyprefix or ""
        keys = [prefix + self._q_for_pri(queue, pri) for pri in self.priority_steps for queue in queues]
        connection = self._in_poll = self.client.connection
        self._brpop_sent_at = time.monotonic()
        seconds = (self.brpop_timeout if timeout is None else timeout) or 0
        connection.send_command("BLMPOP", seconds, len(keys), *keys, "RIGHT", "COUNT", room)

    def _brpop_read(self, **options: Any) -> Any:
        if not self._took_many:
            return super()._brpop_read(**options)
        try:
            try:
                found = self.client.parse_response(self.client.connection, "BLMPOP", **options)
            except self.connection_errors:
                self.client.connection.disconnect()  # the next poll connects again
                raise
            except ResponseError as error:  # this user may not call it, or the server doesn't know it after all
                log.warning("BLMPOP is refused, messages are taken one by one: %s", error)
                self._knows_many, found = False, None
            if not found:
                raise Empty
            key, messages = found
            queue = bytes_to_str(key).removeprefix(self.global_keyprefix or "").rsplit(self.sep, 1)[0]
            self._queue_cycle.rotate(queue)
            self._deliver_all(queue, messages)
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        return True

    def _deliver_all(self, queue: str, messages: list[bytes]) -> None:
        """Deliver each, whatever becomes of the others: they are off the queue already."""
        for number, message in enumerate(messages, 1):
            try:
                self.connection._deliver(loads(bytes_to_str(message)), queue)
            except Exception:
                self._deliver_all(queue, messages[number:])
                raise

    def is_taking_many(self) -> bool:
        """Whether a reply is due that may bring several messages. They must be read, whether there is room or not."""
        return bool(self._in_poll) and self._took_many

    def _server_knows_many(self) -> bool:
        if self._knows_many is None:
            try:
                with self.conn_or_acquire() as client:
                    self._knows_many = int(client.info("server")["redis_version"].split(".")[0]) >= 7
            except (ResponseError, LookupError, ValueError):  # it may not be asked, or says something else
                self._knows_many = False
        return self._knows_many
