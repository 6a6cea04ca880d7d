"""What all pages about cases share: a client, threads that wait for the database, and what Flower's options say."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tornado.ioloop import IOLoop

from keepstep.config.settings import Settings
from keepstep.steps.errors import KeepstepError
from keepstep.workers.client import Client

T = TypeVar("T")

THREADS = 5
"""Questions to the database at once; as many as the client keeps connections."""
ASK_BROKER_EVERY = 5.0

log = logging.getLogger("keepstep.monitor")


class Desk:
    """One for the whole process. Nothing here connects before the first question."""

    def __init__(self, settings: Settings):
        self.client = _client(settings)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="keepstep-pages")
        self._queue = "keepstep"
        self._broker, self._asked_at = True, float("-inf")

    async def ask(self, function: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call it in a thread, so that the pages of others are not kept."""
        return await IOLoop.current().run_in_executor(self._threads, lambda: function(*args, **options))

    def broker_is_there(self) -> bool:
        """Whether Redis answers; asked every few seconds at the most. Blocks for half a second if it doesn't."""
        if time.monotonic() - self._asked_at > ASK_BROKER_EVERY:
            self._asked_at = time.monotonic()
            self._broker = self.client.depth(self._queue) is not None
        return self._broker

    def close(self) -> None:
        """Let the threads end, and hang up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.client.close()


def _client(settings: Settings) -> Client:
    """With the workflows' code if it can be loaded: pictures and some verbs need it, all else goes without."""
    try:
        return Client(settings=settings)
    except KeepstepError as error:
        log.warning("the pages go without the workflows' code: %s", error)
        return Client(settings=settings, workflows=())
