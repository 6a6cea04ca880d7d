"""The heartbeat: once a second, on a connection of its own, whose session holds the node's advisory lock.

In prefork it is a thread of the main process, which runs no user code. In thread and solo pools it is a small child
process, because a C call that holds the GIL must not look like death; the child ends when its parent does.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import IO, Any
from uuid import UUID

from keepstep.checkpoint import nodes
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import Node
from keepstep.steps.errors import DatabaseUnavailable

log = logging.getLogger("keepstep.heartbeat")


def beat_until(url: str, node: Node, every: float, wait: Callable[[float], bool]) -> None:
    """Beat until `wait(seconds)` says that it is over. Reconnects, and takes the lock again, after each failure."""
    db = Database(url, pool_size=1, application_name="keepstep heartbeat")
    over = False
    while not over:
        try:
            with db.connect() as connection:
                if not nodes.lock(connection, node):
                    log.warning("the node's lock is still held by its former session; beating without it")
                while not over:
                    nodes.beat(connection, node)
                    over = wait(every)
        except DatabaseUnavailable as error:
            log.warning("no heartbeat: %s", error)
            over = wait(every / 2)
        except Exception:
            # a cancelled statement, say: silence would have this node taken for dead, with all its steps
            log.exception("no heartbeat; trying again on a new connection")
            over = wait(every / 2)
    db.dispose()


class ThreadHeartbeat:
    """The heartbeat as a thread of this process."""

    def __init__(self, url: str, node: Node, every: float):
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=beat_until, args=(url, node, every, self._over.wait), name="keepstep-heartbeat", daemon=True
        )

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def is_alive(self) -> bool:
        """Whether it still beats."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Beat no more; the lock is free when this returns."""
        self._over.set()
        self._thread.join(timeout=10)


class ChildHeartbeat:
    """The heartbeat as a child process, for pools whose threads run user code in this process."""

    def __init__(self, url: str, node: Node, every: float):
        self._order = json.dumps({"url": url, "every": every, "node": dataclasses.asdict(node)}, default=str)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "keepstep.workers.heartbeat", str(os.getpid())],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        _pipe(self._child).write(self._order.encode() + b"\n")
        _pipe(self._child).flush()

    def is_alive(self) -> bool:
        """Whether it still beats."""
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        """Beat no more; the lock is free when this returns."""
        if self._child is None:
            return
        _pipe(self._child).close()
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def _pipe(child: subprocess.Popen[bytes]) -> IO[bytes]:
    assert child.stdin is not None  # opened with PIPE
    return child.stdin


def main() -> None:
    """Read the order from standard input and beat until it is closed or the parent is another one."""
    parent = int(sys.argv[1])
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    given = order["node"]
    node = Node(**{**given, "id": UUID(given["id"]), "queues": tuple(given["queues"])})

    def over(seconds: float) -> bool:
        # a fork of the parent may keep the pipe open, so its pid is looked at too
        closed = bool(select.select([sys.stdin.buffer], [], [], min(seconds, 0.5))[0])
        return closed or os.getppid() != parent

    beat_until(order["url"], node, order["every"], over)


if __name__ == "__main__":
    main()
