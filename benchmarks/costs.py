"""What a step costs PostgreSQL: statements and round trips as read on the wire, flushes, bytes of WAL and of tables.

Counted under load, all cases at once, with heartbeats so rare that they don't count.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import redis

from benchmarks import work
from benchmarks.load import Load
from benchmarks.rig import Rig, rig, tapping
from benchmarks.shape import Shape
from benchmarks.speed import Crew, quiet
from tests.support.proxy import Wiretap

STEPS = 40
REPORTED = 11.0
"""Seconds after which an idle connection of PostgreSQL has added its numbers to the server's (after 10)."""
RARELY = {"KEEPSTEP_BEAT_SECONDS": "20", "KEEPSTEP_LEASE_SECONDS": "120"}

_FLUSHES = "select sum(fsyncs) from pg_stat_io where object = 'wal'"
_FLUSHES_BEFORE_18 = "select wal_sync from pg_stat_wal"
_SIZE = "select pg_database_size(current_database())"


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Of one step; a case's start is not in statements and round_trips, which are the workers', but in the others.

    commands: of Redis, from all sides. wal_bytes, stored_bytes: in PostgreSQL.
    """

    crew: Crew
    statements: float
    round_trips: float
    flushes: float
    wal_bytes: float
    stored_bytes: float
    commands: float


def measure(shape: Shape, pool: str, *, cases: int = 50) -> Costs:
    """Servers and workers of its own; half a minute."""
    crew = Crew.of(pool, shape)
    with rig(workflows=work.ALL, module="benchmarks.work", env=quiet(shape)) as built, tapping(built) as tap:
        crew.start(built, env={**RARELY, **built.tapped(tap)})
        load = Load(built=built, steps=STEPS)
        time.sleep(REPORTED)
        before, asked = _counted(built), _asked(tap)
        load.at_once(cases)
        sent, wal = [now - then for now, then in zip(_asked(tap), asked, strict=True)], _counted(built)["wal"]
        time.sleep(REPORTED)
        after = {**_counted(built), "wal": wal}
    per = {name: (after[name] - before[name]) / (cases * STEPS) for name in before}
    return Costs(
        crew=crew,
        statements=sent[0] / (cases * STEPS),
        round_trips=sent[1] / (cases * STEPS),
        flushes=per["flushes"],
        wal_bytes=per["wal"],
        stored_bytes=per["size"],
        commands=per["commands"],
    )


def _counted(built: Rig) -> dict[str, float]:
    flushes = _FLUSHES if built.sql.info.server_version >= 180000 else _FLUSHES_BEFORE_18
    with redis.Redis.from_url(built.servers.valkey.url) as broker:
        commands = float(broker.info("stats")["total_commands_processed"])
    return {
        "flushes": built.number(flushes),
        "wal": built.number("select pg_current_wal_lsn() - '0/0'::pg_lsn"),
        "size": built.number(_SIZE),
        "commands": commands,
    }


def _asked(tap: Wiretap) -> tuple[int, int]:
    """Statements and round trips until now: a simple query is both; an extended one is executed, then synced."""
    messages: Sequence[str] = [message for connection in list(tap.asked) for message in list(connection)]
    extended = {kind: messages.count(kind) for kind in ("E", "S")}
    simple = sum(len(message) > 1 for message in messages)
    return simple + extended["E"], simple + extended["S"]
