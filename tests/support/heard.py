"""Celery's events, as Flower hears them."""

from __future__ import annotations

import threading
from typing import Any

from celery import Celery


class Heard:
    """Listens in a thread until it is closed."""

    def __init__(self, app: Celery):
        self._app, self._events, self._over = app, list[dict[str, Any]](), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def anything(self) -> bool:
        """Whether it hears already: a worker says every two seconds that it lives."""
        return bool(self._events)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The events of one kind so far: "task-started", say."""
        return [event for event in self._events if event["type"] == kind]

    def close(self) -> None:
        self._over.set()
        self._thread.join(5)

    def _listen(self) -> None:
        with self._app.connection_for_read() as connection:
            receiver = self._app.events.Receiver(connection, handlers={"*": self._events.append})
            while not self._over.is_set():
                try:
                    receiver.capture(limit=None, timeout=0.5)
                except TimeoutError:
                    continue
