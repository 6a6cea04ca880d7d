"""PostgreSQL: is it there, at the right schema, with the right clock, durable, and are there connections enough?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from keepstep.checkpoint import schema
from keepstep.checkpoint.nodes import NodeView
from keepstep.checkpoint.sql import checkup as sql
from keepstep.config.settings import without_password
from keepstep.monitor.doctor.finding import Finding, Patient, bad, ok, warn

OLDEST = 130000
"""The oldest server that is tried, as server_version_num."""
SKEW = 5.0
"""Seconds by which clocks may differ before people are confused."""
NEARLY = 0.8
"""The share of max_connections that is too much."""


def look_at_database(patient: Patient) -> Iterator[Finding]:
    """Raises DatabaseUnavailable, SchemaOutdated."""
    db = patient.client.db
    before = time.time()
    server = db.all(sql.SERVER)[0]
    between = (before + time.time()) / 2
    yield ok(
        f"PostgreSQL {server.version} answers at {without_password(db.url)}, in {1000 * 2 * (between - before):.0f} ms"
    )
    if server.standby:
        yield bad(
            "it is a read-only standby", "Let KEEPSTEP_DATABASE_URL name the primary (target_session_attrs=read-write)"
        )
    if server.number < OLDEST:
        yield warn(f"PostgreSQL {server.version} is older than any that keepstep is tried with", "Upgrade PostgreSQL.")
    if server.fsync != "on" or server.synchronous_commit == "off":
        which = "fsync" if server.fsync != "on" else "synchronous_commit"
        yield bad(
            f"PostgreSQL's {which} is off: a checkpoint that a worker was told is written can be lost in a crash",
            f"Set {which} = on; keepstep itself goes without a flush where that does no harm.",
        )
    if not server.encrypted and not _is_local(db.url):
        yield warn("the connection to PostgreSQL isn't encrypted", "Add ?sslmode=verify-full to KEEPSTEP_DATABASE_URL.")
    schema.check(db)
    yield ok(f"the tables are there, at revision {schema.known_revisions()[-1]} or newer")
    skew = server.clock - between
    if abs(skew) > SKEW:
        yield warn(
            f"this machine's clock differs from PostgreSQL's by {skew:+.0f} s",
            "No decision hangs on it, but logs and pages are confusing: let both keep time (chrony, NTP).",
        )
    else:
        yield ok("this machine's clock agrees with PostgreSQL's")


def look_at_connections(patient: Patient) -> Iterator[Finding]:
    """Whether PostgreSQL has connections for what the workers may open at the most."""
    server = patient.client.db.all(sql.SERVER)[0]
    room = server.most - server.reserved
    wanted = sum(connections(node) for node in patient.live)
    told = f"{server.connections} of {room} connections are open, {server.ours} of them keepstep's"
    mend = (
        "Raise max_connections, lower the workers' concurrency, or put PgBouncer in between (docs/scaling.md): whoever "
        "finds none free waits for 10 s, and is told that the database is away."
    )
    if server.connections > NEARLY * room:
        yield bad(f"{told}: few are left", mend)
    elif wanted + server.connections - server.ours > room:
        yield warn(f"{told}; the live workers may open {wanted} at the most, which is too much", mend)
    else:
        yield ok(f"{told}; the live workers open {wanted} at the most")


def connections(node: NodeView) -> int:
    """How many a node opens at the most: each process what its threads need, and the heartbeat's own."""
    if node.pool == "prefork":
        return (node.concurrency + 1) * 5 + 1
    return min(10, node.concurrency + 3) + node.concurrency + 1


def _is_local(url: str) -> bool:
    return any(part in url for part in ("@127.0.0.1", "@localhost", "@[::1]", "host=/", "@/"))
