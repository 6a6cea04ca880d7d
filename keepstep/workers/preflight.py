"""What a worker makes sure of before it starts: its pool, its queues, and a database with the right tables."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import DatabaseUnavailable, SchemaOutdated
from keepstep.steps.workflow import DEFAULT_QUEUE
from keepstep.workers.registry import Registry

EVERY = 1.0
SAY_AGAIN = 10.0
"""Seconds between two looks at a database that can't be reached, and between two lines that say the same about it."""

_REFUSED = re.compile(r'FATAL:.*(role "|database "|user "|password|no such|pg_hba)')
"""SQLSTATE 28xxx and 3D000, which psycopg2 doesn't hand over for a connection that fails: it has only the words."""

log = logging.getLogger("keepstep.node")


def refuse_green_threads(worker: Any) -> None:
    """gevent and eventlet patch what the heartbeat and the recovery stand on."""
    if worker.pool_cls.__module__.rpartition(".")[2] in ("gevent", "eventlet"):
        raise SystemExit("keepstep: pools of green threads are not supported: use --pool prefork, threads or solo")


def warn_of_idle_queues(taken: set[str], registry: Registry) -> None:
    """Say which of the queues that this worker takes no loaded step uses: most likely a misspelt -Q."""
    for queue in sorted(taken - {DEFAULT_QUEUE, *registry.queues}):
        log.warning("no loaded step uses queue %r; those of the loaded steps: %s", queue, ", ".join(registry.queues))


def wait_for_schema(
    db: Database,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until PostgreSQL answers; leave, saying what to do, if its tables can't be read or aren't for this code.

    A role, password or database that PostgreSQL refuses is waited for, too: it may be on its way.
    """
    said, said_at = "", 0.0
    while True:
        try:
            schema.check(db)
            db.dispose()  # the pool is forked next
            return
        except DatabaseUnavailable as error:
            text, now = f"{error}", clock()
            if text != said or now - said_at >= SAY_AGAIN:
                said, said_at = text, now
                hint = ". Check KEEPSTEP_DATABASE_URL" if _REFUSED.search(text) else ""
                log.error("waiting for the database: %s%s", text, hint)
            sleep(EVERY)
        except SchemaOutdated as error:
            raise SystemExit(f"keepstep: {error}") from None
        except DBAPIError as error:
            raise SystemExit(f"keepstep: PostgreSQL refuses: {_reason(error, db)}") from error


def _reason(error: DBAPIError, db: Database) -> str:
    """PostgreSQL's words; for missing rights, with the statements that give them."""
    reason = str(error.orig).strip().splitlines()[0]
    if getattr(error.orig, "pgcode", None) != "42501":
        return reason
    role = make_url(db.url).username or "its role"
    return (
        f"{reason}. A worker needs: grant usage on schema keepstep to {role}; "
        f"grant select, insert, update, delete on all tables in schema keepstep to {role}"
    )
