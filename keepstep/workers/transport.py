"""kombu's Redis transport, with a fault mended that ends workers, and with a middle among its priorities.

When the broker dies, Celery closes its connection while messages are still unacknowledged; a channel that wants to put
them back then looks for the parameters of a client that is gone, and an AttributeError goes through all of Celery's
handlers for lost connections (seen with kombu 5.7). As a connection error it is handled, and the worker reconnects.
The messages need no restoring: the sweep rings again.

kombu keeps a list for each priority and takes from the list of priority 0, which has the queue's own name, before all
others. keepstep's default lies in the middle, and a queue's messages are looked for under its own name (by people, by
autoscalers), so the lists of these two change places. They are still the lists that kombu knows: what counts, purges or
even consumes with kombu's own transport misses none.
"""

from __future__ import annotations

from typing import Any

from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as stock
from redis.exceptions import ConnectionError as RedisConnectionError

from keepstep.config.celery_options import broker_priority
from keepstep.workers.take import TakesMany
from keepstep.workers.unacked import LightQoS

NAME, LIGHT_NAME = "redis-keepstep", "redis-keepstep-light"
"""The transports' names in kombu, and hence in log lines that show the broker's URL."""

MIDDLE = broker_priority(None)

_REMOTE_CONTROL = ".pidbox"
"""The queues of `celery inspect` and `control`, which any team's own app must find where stock kombu looks."""

TRANSPORT_ALIASES[NAME] = f"{__name__}:Transport"
TRANSPORT_ALIASES[LIGHT_NAME] = f"{__name__}:LightTransport"


def transport_for(broker_url: str, *, lean: bool = False) -> str | None:
    """The transport for a Celery app's `broker_transport`; None for URLs that stay with kombu's own.

    lean: a worker's, which keeps what it has taken of keepstep's messages in memory only.
    """
    if not broker_url.startswith(("redis://", "rediss://")):
        return None
    return LIGHT_NAME if lean else NAME


class Channel(stock.Channel):
    """A channel that says that its connection is closed, and whose default priority is in the middle."""

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        if self.connection.client is None:
            raise RedisConnectionError("the connection to the broker is closed")
        params: dict[str, Any] = super()._connparams(asynchronous=asynchronous)
        return params

    def _q_for_pri(self, queue: str, pri: int) -> str:
        if not queue.endswith(_REMOTE_CONTROL):
            pri = {0: MIDDLE, MIDDLE: 0}.get(pri, pri)
        name: str = super()._q_for_pri(queue, pri)
        return name


class LightChannel(TakesMany, Channel):
    """It takes several messages at a time, and its book-keeping of keepstep's own is light."""

    QoS = LightQoS


class Transport(stock.Transport):
    """Stock, but for its channels."""

    Channel = Channel


class LightTransport(stock.Transport):
    """For workers."""

    Channel = LightChannel
