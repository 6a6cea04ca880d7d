"""Redis or Valkey: is it there, may it evict, how full is it, and how long does it keep what is unacknowledged?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import redis
from redis.exceptions import RedisError

from keepstep.config.celery_options import VISIBILITY_TIMEOUT
from keepstep.config.settings import without_password
from keepstep.monitor.doctor.finding import Finding, Patient, bad, ok, warn
from keepstep.steps.words import duration

SECONDS = 3.0
FULL = 0.9
"""The share of maxmemory that is too much."""


def look_at_broker(patient: Patient) -> Iterator[Finding]:
    """What can be known of it without changing anything."""
    url = patient.settings.broker_url
    shown = without_password(url)
    if not url.startswith(("redis://", "rediss://")):
        found = patient.client.depth("keepstep") is not None
        yield ok(f"the broker answers at {shown}") if found else _away(shown, "it doesn't answer")
        return
    try:
        with redis.Redis.from_url(url, socket_timeout=SECONDS, socket_connect_timeout=SECONDS) as broker:
            info: dict[str, Any] = dict(broker.info())
    except (RedisError, OSError, ValueError) as error:
        yield _away(shown, str(error) or type(error).__name__)
        return
    yield ok(f"{info.get('server_name', 'redis').capitalize()} {_version(info)} answers at {shown}")
    yield from _memory(info)
    if url.startswith("redis://") and not _is_local(url):
        yield warn(
            "the connection to the broker isn't encrypted", "Use rediss:// in KEEPSTEP_BROKER_URL (docs/scaling.md)."
        )
    if info.get("role") == "slave":
        yield bad("the broker is a replica, which takes no messages", "Let KEEPSTEP_BROKER_URL name the primary.")
    yield from _visibility(patient)


def _memory(info: dict[str, Any]) -> Iterator[Finding]:
    policy, most, used = (
        info.get("maxmemory_policy"),
        int(info.get("maxmemory") or 0),
        int(info.get("used_memory") or 0),
    )
    if policy is None:
        yield warn("the broker doesn't say whether it evicts", "Make sure that maxmemory-policy is noeviction.")
    elif policy != "noeviction":
        yield bad(
            f"the broker may throw messages away: maxmemory-policy is {policy}",
            "CONFIG SET maxmemory-policy noeviction, and in its configuration. keepstep rings again, "
            "but Celery's bindings and other services' messages are gone.",
        )
    else:
        yield ok("the broker never evicts")
    if most and used > FULL * most:
        yield bad(
            f"the broker's memory is nearly full: {used / 2**20:,.0f} of {most / 2**20:,.0f} MiB",
            "Start workers for the queues that are long (keepstep queues), or raise maxmemory.",
        )
    if str(info.get("aof_enabled", "0")) == "0" and not info.get("rdb_last_save_time"):
        yield warn("the broker keeps nothing over a restart", "appendonly yes spares each restart a delay of seconds.")


def _visibility(patient: Patient) -> Iterator[Finding]:
    """Longer steps than the timeout are delivered twice while they run; the second delivery is refused, but loud."""
    longest = max(
        (step.timeout.total_seconds() for code in patient.client.registry for step in code.steps.values()), default=0.0
    )
    if longest >= VISIBILITY_TIMEOUT:
        yield warn(
            f"a step may take {duration(longest)}, longer than the broker's visibility timeout of "
            f"{duration(VISIBILITY_TIMEOUT)}: its message comes again while it runs, and is refused",
            "Split the step, or wait in between (sleep, wait_for): waiting holds nothing.",
        )
    else:
        yield ok(f"the visibility timeout is {duration(VISIBILITY_TIMEOUT)}, longer than any step may take")


def _version(info: dict[str, Any]) -> str:
    return str(info.get("valkey_version") or info.get("redis_version") or "?")


def _away(shown: str, why: str) -> Finding:
    return bad(
        f"the broker can't be reached at {shown}: {why}",
        "Start it, or mend KEEPSTEP_BROKER_URL. Cases are safe in PostgreSQL meanwhile, and go on when it is back.",
    )


def _is_local(url: str) -> bool:
    host = url.partition("://")[2].rpartition("@")[2]
    return host.startswith(("127.0.0.1", "localhost", "[::1]"))
