"""kombu's Redis transport, with a fault mended that ends workers.

When the broker dies, Celery closes its connection while messages are still unacknowledged; a channel that wants to put
them back then looks for the parameters of a client that is gone, and an AttributeError goes through all of Celery's
handlers for lost connections (seen with kombu 5.7). As a connection error it is handled, and the worker reconnects.
The messages need no restoring: the sweep rings again.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as stock
from redis.exceptions import ConnectionError as RedisConnectionError

NAME = "redis-keepstep"
"""The transport's name in kombu, and hence in log lines that show the broker's URL."""

TRANSPORT_ALIASES[NAME] = f"{__name__}:Transport"


def transport_for(broker_url: str) -> str | None:
    """The transport for a Celery app's `broker_transport`; None for URLs that stay with kombu's own."""
    return NAME if broker_url.startswith(("redis://", "rediss://")) else None


class Channel(stock.Channel):
    """A channel that says that its connection is closed."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        if self.connection.client is None:
            raise RedisConnectionError("the connection to the broker is closed")
        params: dict[str, Any] = super()._connparams(asynchronous=asynchronous)
        return params


class Transport(stock.Transport):
    """Stock, but for its channels."""

    Channel = Channel
