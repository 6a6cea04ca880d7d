"""A held line to Redis: messages are pushed to their lists in one round trip, without Celery's machinery.

It uses the parameters, the key prefix and the names of lists of kombu's own channel, so TLS, Sentinel and priorities
are as they are configured. Where the broker isn't Redis there is no line, and Celery publishes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from celery import Celery
from kombu.transport.redis import Channel
from redis.exceptions import ConnectionError as RedisConnectionError


class Line:
    """One for each process, and safe for its threads. A child that inherited its parent's makes its own."""

    def __init__(self, app: Celery):
        self._app = app
        self._lock = threading.Lock()
        self._pid: int | None = None
        self._connection: Any = None
        self._channel: Any = None
        self._client: Any = None

    def is_there(self) -> bool:
        """Whether the broker is one that lists can be pushed to. Raises what kombu raises if it can't be reached."""
        return self._open() is not None

    def push(self, messages: Mapping[tuple[str, int], Sequence[str]]) -> None:
        """Put messages into the lists of their (queue, kombu's priority). Raises RedisError, or kombu's own errors.

        A connection that has died since it was last used is replaced once.
        """
        try:
            self._push(messages)
        except RedisConnectionError:
            self.close()
            self._push(messages)

    def close(self) -> None:
        """Hang up; the next push opens another line."""
        with self._lock:
            connection, self._connection, self._client, self._channel = self._connection, None, None, None
            if connection is not None and self._pid == os.getpid():
                connection.release()

    def _push(self, messages: Mapping[tuple[str, int], Sequence[str]]) -> None:
        client = self._open()
        channel = self._channel
        if len(messages) == 1:
            [((queue, priority), bodies)] = messages.items()
            client.lpush(channel._q_for_pri(queue, priority), *bodies)
            return
        with client.pipeline(transaction=False) as pipe:
            for (queue, priority), bodies in messages.items():
                pipe.lpush(channel._q_for_pri(queue, priority), *bodies)
            pipe.execute()

    def _open(self) -> Any:
        if self._client is not None and self._pid == os.getpid():
            return self._client
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                self._connection = self._app.connection_for_write()
                self._pid = os.getpid()
                channel = self._connection.default_channel
                self._channel = channel
                self._client = channel._create_client() if isinstance(channel, Channel) else None
            return self._client
