"""The stub's memory: one effect per idempotency key, and a record of every call."""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any


class Interrupted(Exception):
    """The stub is stopping: the effect did not happen."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One keyed request as it arrived."""

    key: str
    endpoint: str
    body: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An HTTP status and the JSON that goes with it."""

    status: int
    body: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class CallRecord:
    """One arrival, written down before anything is done about it. `at` is in seconds since 1970."""

    key: str
    endpoint: str
    application: str
    at: float
    repeat: bool


@dataclass(kw_only=True)
class Entry:
    """All that is known under one key: the first request, its answer, and how often it was asked."""

    first: Request
    answer: Answer | None = None
    raw: int = 0
    effects: int = 0
    done: threading.Event = field(default_factory=threading.Event)


class Ledger:
    """Do the effect of the first request under a key, and give every repeat the same answer.

    A repeat that arrives while the first is still being worked on waits for it. A key that comes back with another
    endpoint or body is refused with 422, as the IETF draft on the Idempotency-Key header asks.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, Entry] = {}
        self._calls: list[CallRecord] = []

    def perform(self, request: Request, effect: Callable[[], Answer]) -> Answer:
        """Record the call, do `effect` if this is the key's first request, and return the key's one answer."""
        entry, repeat = self._arrive(request)
        if request != entry.first:
            return Answer(status=422, body={"error": f"key {request.key} was used for another request"})
        if not repeat:
            self._work(entry, effect)
        entry.done.wait()
        return entry.answer or Answer(status=503, body={"error": "the stub stopped before it had an answer"})

    def report(self) -> dict[str, Any]:
        """Return every call in order of arrival and, per key, its raw count and its number of effects."""
        with self._lock:
            calls = [asdict(call) for call in self._calls]
            keys = {key: _summary(entry) for key, entry in self._entries.items()}
        return {"calls": calls, "keys": keys}

    def _arrive(self, request: Request) -> tuple[Entry, bool]:
        with self._lock:
            repeat = request.key in self._entries
            entry = self._entries.setdefault(request.key, Entry(first=request))
            entry.raw += 1
            self._calls.append(
                CallRecord(
                    key=request.key,
                    endpoint=request.endpoint,
                    application=str(request.body.get("application", "")),
                    at=time.time(),
                    repeat=repeat,
                )
            )
        return entry, repeat

    def _work(self, entry: Entry, effect: Callable[[], Answer]) -> None:
        try:
            answer = effect()
            with self._lock:
                entry.answer = answer
                entry.effects += 1
        except Interrupted:
            return
        finally:
            entry.done.set()


def _summary(entry: Entry) -> dict[str, Any]:
    return {
        "endpoint": entry.first.endpoint,
        "application": str(entry.first.body.get("application", "")),
        "raw": entry.raw,
        "effects": entry.effects,
    }
