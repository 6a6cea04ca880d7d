"""A TCP proxy in front of PostgreSQL that reads along: which statements each connection sent, in how many messages."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Wiretap:
    """What the clients asked for. asked: for each connection, its statements in order."""

    def __init__(self, port: int):
        self._server = socket.create_server(("127.0.0.1", 0))
        self._target = port
        self.port: int = self._server.getsockname()[1]
        self.asked: list[list[str]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self._target))
            asked: list[str] = []
            self.asked.append(asked)
            threading.Thread(target=_listen, args=(client, upstream, asked), daemon=True).start()
            threading.Thread(target=_pass_on, args=(upstream, client), daemon=True).start()

    def close(self) -> None:
        self._server.close()


@contextmanager
def wiretap(port: int) -> Iterator[Wiretap]:
    tap = Wiretap(port)
    try:
        yield tap
    finally:
        tap.close()


def _listen(client: socket.socket, upstream: socket.socket, asked: list[str]) -> None:
    """Forward, and note each message after the start-up: one is one round trip."""
    buffer, started = b"", False
    while data := _receive(client):
        upstream.sendall(data)
        buffer += data
        while len(buffer) >= 5:
            kind, length = (
                (b"", struct.unpack("!i", buffer[:4])[0])
                if not started
                else (
                    buffer[:1],
                    struct.unpack("!i", buffer[1:5])[0] + 1,
                )
            )
            if len(buffer) < length:
                break
            message, buffer = buffer[:length], buffer[length:]
            if not started:
                started = message[4:8] == struct.pack("!i", 196608)  # not an SSL or GSS request
            elif kind == b"Q":
                asked.append(message[5:-1].decode())
            else:
                asked.append(kind.decode())
    upstream.close()


def _pass_on(upstream: socket.socket, client: socket.socket) -> None:
    while data := _receive(upstream):
        client.sendall(data)
    client.close()


def _receive(side: socket.socket) -> bytes:
    try:
        return side.recv(65536)
    except OSError:
        return b""
