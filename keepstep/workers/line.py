"""A held line to Redis: messages are pushed to their lists in one round trip, without Celery's machinery.

It uses the parameters, the key prefix and the names of lists of kombu's own channel, so TLS, Sentinel and priorities
are as they are configured. Where the broker isn't Redis there is no line, and Celery publishes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import redis
from celery import Celery
from kombu.transport.redis import Channel
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

AT_ONCE = 4
"""Pushes of one process at a time: hundreds of threads that push together need not have a connection each."""

_FOR_WHAT = ("LPUSH",) if redis.VERSION < (5, 3) else ()
"""What a connection is taken from the pool for, while redis-py wanted to know."""


class _Open(NamedTuple):
    """An open line. client: None where the broker is not Redis. turns: one for each push that may go on now. idle: the
    connections to Redis that nobody is using just now.
    """

    pid: int
    connection: Any
    channel: Any
    client: Any
    turns: threading.Semaphore
    idle: list[Any]


class Line:
    """One for each process, and safe for its threads. A child that inherited its parent's makes its own.

    Nobody waits longer for other threads than for the broker itself: while it is silent, they would queue up.
    """

    def __init__(self, app: Celery):
        self._app, self._patience = app, float(app.conf.broker_transport_options.get("socket_timeout") or 10.0)
        self._lock, self._lock_pid = threading.Lock(), os.getpid()
        self._held: _Open | None = None

    def is_there(self) -> bool:
        """Whether the broker is one that lists can be pushed to. Raises what kombu raises if it can't be reached."""
        return self._open().client is not None

    def push(self, messages: Mapping[tuple[str, int], Sequence[str]], *, first: bool = False) -> None:
        """Put messages into the lists of their (queue, kombu's priority). Raises RedisError, or kombu's own errors.

        first: at the end where they are taken. A connection that has died since it was last used is replaced once.
        """
        line = self._open()
        try:
            self._push(line, messages, first)
        except RedisConnectionError:
            self._forget(line)
            self._push(self._open(), messages, first)

    def _push(self, line: _Open, messages: Mapping[tuple[str, int], Sequence[str]], first: bool) -> None:
        with self._turn(line.turns):
            _push(line, messages, first)

    def oldest(self, queue: str) -> list[tuple[int, str]]:
        """The message that is taken next from each of a queue's lists, with its kombu priority."""
        line = self._open()
        lists = [(priority, line.channel._q_for_pri(queue, priority)) for priority in line.channel.priority_steps]
        with line.client.pipeline(transaction=False) as pipe:
            for _, name in lists:
                pipe.lindex(name, -1)
            return [(pri, message) for (pri, _), message in zip(lists, pipe.execute(), strict=True) if message]

    def close(self) -> None:
        """Hang up; the next push opens another line."""
        line = self._held
        if line is not None:
            self._forget(line)
            if line.pid == os.getpid():
                line.connection.release()

    def _forget(self, line: _Open) -> None:
        """Others may still be using it, so it is only let go of."""
        with self._turn(self._this_lock()):
            if self._held is line:
                self._held = None

    def _open(self) -> _Open:
        line = self._held
        if line is not None and line.pid == os.getpid():
            return line
        with self._turn(self._this_lock()):
            line = self._held
            if line is None or line.pid != os.getpid():
                connection = self._app.connection_for_write()
                channel: Any = connection.default_channel
                client = channel._create_client() if isinstance(channel, Channel) else None
                line = self._held = _Open(os.getpid(), connection, channel, client, threading.Semaphore(AT_ONCE), [])
            return line

    @contextmanager
    def _turn(self, taken: threading.Lock | threading.Semaphore) -> Iterator[None]:
        if not taken.acquire(timeout=self._patience):
            raise RedisTimeoutError("the broker doesn't answer those who were there before")
        try:
            yield
        finally:
            taken.release()

    def _this_lock(self) -> threading.Lock:
        """This process's lock: a thread of the parent may have held the inherited one at the fork."""
        if self._lock_pid != os.getpid():
            self._lock, self._lock_pid = threading.Lock(), os.getpid()
        return self._lock


def _push(line: _Open, messages: Mapping[tuple[str, int], Sequence[str]], first: bool) -> None:
    """One round trip, on a connection of the client's pool: what the client itself does around a command, measuring and
    trying again, costs more than all the rest of a message.
    """
    prefix, name = line.channel.global_keyprefix or "", line.channel._q_for_pri
    commands = [
        ("RPUSH", prefix + name(*where), *reversed(bodies)) if first else ("LPUSH", prefix + name(*where), *bodies)
        for where, bodies in messages.items()
    ]
    pool = line.client.connection_pool
    try:
        connection = line.idle.pop()
    except IndexError:
        connection = pool.get_connection(*_FOR_WHAT)
    try:
        connection.send_packed_command(connection.pack_commands(commands))
        for _ in commands:
            connection.read_response()
    except BaseException:
        connection.disconnect()  # whatever it still had to say
        pool.release(connection)  # which opens it again as it should be: Sentinel's asks who is the master now
        raise
    line.idle.append(connection)
