"""What a step is told about its own call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID


@dataclass(kw_only=True)
class Call:
    """The one outside call that a step makes.

    attempt: 1 on the first try. seq: the checkpoint it starts from. deadline: when the attempt is taken away, by the
    database's clock. key, headers: see there. log: a logger whose lines carry the thread id.
    """

    workflow: str
    thread_id: str
    step: str
    seq: int
    attempt: int
    deadline: datetime
    log: logging.LoggerAdapter[logging.Logger]
    _key: UUID
    _is_cancelled: Callable[[], bool] = field(default=lambda: False, repr=False)
    key_read: bool = field(default=False, init=False)

    @property
    def key(self) -> str:
        """The idempotency key: a UUID, the same on every attempt of this step. Reading it is remembered."""
        self.key_read = True
        return str(self._key)

    @property
    def headers(self) -> dict[str, str]:
        """The key as HTTP headers, ready to send."""
        return {"Idempotency-Key": self.key}

    def cancelled(self) -> bool:
        """Whether this attempt's result will not be taken any more: cancelled, rewound, or taken for dead.

        A long step asks from time to time, and may end early; whatever it still returns is kept as late. It is False
        too when nobody can say, because PostgreSQL is away.
        """
        return self._is_cancelled()
