"""A TCP proxy between the workers and PostgreSQL, which cuts connections in three ways."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

_CHUNK = 65536


@dataclass(eq=False)
class _Line:
    """One connection: the worker's side and the server's.

    deaf: the server's next reply is lost, and the line with it. unaware: the server isn't told that the worker is gone.
    """

    worker: asyncio.StreamWriter
    server: asyncio.StreamWriter
    deaf: bool = False
    unaware: bool = False

    def cut(self) -> None:
        """End both sides at once, by a reset."""
        _reset(self.worker)
        _reset(self.server)

    async def ask(self, asked: asyncio.StreamReader) -> None:
        """Pass on what the worker sends, until it ends."""
        with suppress(OSError):
            while data := await asked.read(_CHUNK):
                self.server.write(data)
                await self.server.drain()
        if not self.unaware:
            self.server.close()

    async def answer(self, answers: asyncio.StreamReader) -> None:
        """Pass on what the server sends, until it ends."""
        with suppress(OSError):
            while (data := await answers.read(_CHUNK)) and not self.deaf:
                self.worker.write(data)
                await self.worker.drain()
        if self.deaf:
            self.cut()
        else:
            self.worker.close()


class Proxy:
    """Listens on a port of its own, and passes on what comes. target: the server's port."""

    def __init__(self, target: int):
        self._target = target
        self._lines: set[_Line] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chaos-proxy", daemon=True)
        self._thread.start()
        self.port: int = self._run(self._listen())

    def cut(self, share: float, chance: Random) -> int:
        """Cut that share of the connections; how many."""
        return self._run(self._each(share, chance, _Line.cut))

    def lose_replies(self, share: float, chance: Random) -> int:
        """Let them lose the server's next reply, and with it the connection: what was asked for is done, unheard."""

        def deafen(line: _Line) -> None:
            line.deaf = True

        return self._run(self._each(share, chance, deafen))

    def leave_unaware(self, share: float, chance: Random, seconds: float) -> int:
        """Cut the workers' sides. The server keeps its sessions, with their locks, for some seconds."""

        def leave(line: _Line) -> None:
            line.unaware = True
            _reset(line.worker)
            self._loop.call_later(seconds, _reset, line.server)

        return self._run(self._each(share, chance, leave))

    def close(self) -> None:
        """Cut all, and listen no more."""
        self._run(self._each(1.0, Random(0), _Line.cut))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def _run(self, work: Coroutine[Any, Any, int]) -> int:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = server
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _each(self, share: float, chance: Random, act: Callable[[_Line], None]) -> int:
        chosen = [line for line in self._lines if chance.random() < share]
        for line in chosen:
            act(line)
        return len(chosen)

    async def _serve(self, reader: asyncio.StreamReader, worker: asyncio.StreamWriter) -> None:
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(worker)
            return
        line = _Line(worker, server)
        self._lines.add(line)
        try:
            await asyncio.gather(line.ask(reader), line.answer(answers))
        finally:
            self._lines.discard(line)


def _reset(writer: asyncio.StreamWriter) -> None:
    found = writer.get_extra_info("socket")
    with suppress(OSError):
        if found is not None and found.fileno() >= 0:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
