"""The tables that `python -m benchmarks` prints: for each measurement its columns, and a row of its figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks import (
    backlog,
    branches,
    check,
    costs,
    growth,
    lengths,
    mixed,
    parents,
    pruning,
    recovery,
    speed,
    vacuum,
    waiting,
)
from benchmarks.sheet import Sheet


class Table(NamedTuple):
    """sheet: makes an empty one. row: of one figure."""

    sheet: Callable[..., Sheet]
    row: Callable[[Any], Sequence[object]]


def _speed() -> Sheet:
    return Sheet(
        title=f"Speed: state of 1 KiB, {os.cpu_count()} cores; the servers run on them too",
        columns=[
            "pool, workers × at once",
            "a step waits, ms",
            "steps/s",
            "% of ideal",
            "ms a step, alone",
            "queued ms, median",
            "queued ms, p99",
            "CPU s per 1,000",
            "client",
            "main",
            "pool",
            "Redis",
            "PostgreSQL",
            "MiB a worker",
        ],
    )


def _speed_row(it: speed.Speed) -> Sequence[object]:
    ideal = None if it.ideal is None else it.ideal * 100
    cpu = it.cpu
    split = (cpu.total, cpu.client, cpu.main, cpu.pool, cpu.redis, cpu.postgres)
    return str(it.crew), it.wait_ms, it.per_s, ideal, it.lone_ms, it.queued_ms, it.queued_p99_ms, *split, it.mib


def _costs() -> Sheet:
    named = ["statements", "round trips", "flushes", "WAL bytes", "stored bytes", "Redis commands"]
    return Sheet(title="What a step costs, all cases at once", columns=["pool, workers × at once", *named])


def _costs_row(it: costs.Costs) -> Sequence[object]:
    bytes_ = it.wal_bytes, it.stored_bytes
    return str(it.crew), it.statements, it.round_trips, it.flushes, *bytes_, it.commands


def _waiting() -> Sheet:
    title = f"Steps that wait {waiting.SECONDS * 1000:g} ms for an API, in one worker"
    return Sheet(title=title, columns=["pool", "step", "steps/s", "% of ideal", "connections", "MiB"])


def _waiting_row(it: waiting.Waiting) -> Sequence[object]:
    return str(it.crew), it.kind, it.per_s, it.ideal * 100, it.connections, it.mib


def _mixed() -> Sheet:
    title = f"When quick cases are over, of {mixed.CASES} at once, in seconds"
    return Sheet(title=title, columns=["pool", "slow ones among them", "median", "last"])


def _mixed_row(it: mixed.Mixed) -> Sequence[object]:
    return str(it.crew), it.slow, it.median_s, it.last_s


def _growth() -> Sheet:
    columns = ["load", "pool", "steps/s", "CPU s per 1,000", "WAL bytes a step", "stored bytes a step"]
    return Sheet(title="How the cost of a step grows", columns=columns)


def _growth_row(it: growth.Growth) -> Sequence[object]:
    return str(it.size), it.crew.pool, it.per_s, it.cpu, it.wal_bytes, it.stored_bytes


def _lengths() -> Sheet:
    columns = ["case", "stored bytes a step", "payload bytes", "WAL bytes", "ms, first tenth", "ms, last tenth"]
    return Sheet(title="A step of short and of long cases, by hand", columns=[*columns, "ms to load near the end"])


def _lengths_row(it: lengths.Growth) -> Sequence[object]:
    return str(it.length), it.stored, it.payload, it.wal, it.first_ms, it.last_ms, it.resume_ms


def _pruning() -> Sheet:
    columns = ["pool", "steps/s without", "steps/s beside it", "slower by %", "cases pruned a second"]
    return Sheet(title=f"Beside {pruning.ENDED:,} ended cases that leave", columns=columns)


def _pruning_row(it: pruning.Pruning) -> Sequence[object]:
    return str(it.crew), it.without, it.beside, it.slower, it.pruned_per_s


def _backlog() -> Sheet:
    columns = ["pool", "backlog", "stored a second", "steps/s without", "steps/s beside it"]
    return Sheet(title="Beside a backlog of queued cases", columns=columns)


def _backlog_row(it: backlog.Backlog) -> Sequence[object]:
    return str(it.crew), it.cases, it.stored_per_s, it.before, it.behind


def _branches() -> Sheet:
    columns = ["pool", "what", "how many", "steps/s", "sessions that wait for a lock"]
    return Sheet(title="Branches of one case, beside separate cases of one step", columns=columns)


def _branches_row(it: branches.Branches) -> Sequence[object]:
    return str(it.crew), it.kind, it.count, it.per_s, it.blocked


def _parents() -> Sheet:
    columns = [
        "pool",
        "cases that wait",
        "idle, % of a core",
        "idle beside them",
        "steps/s without",
        "steps/s beside them",
    ]
    return Sheet(title="Beside cases that wait for their branches", columns=columns)


def _parents_row(it: parents.Parents) -> Sequence[object]:
    return str(it.crew), it.parents, it.alone, it.beside, it.before, it.after


def _loops() -> Sheet:
    columns = ["pool", "steps", "max_visits", "ms a step, the first hundred", "ms a step, the last hundred"]
    return Sheet(title="A loop of one case", columns=columns)


def _loops_row(it: branches.Loop) -> Sequence[object]:
    return str(it.crew), it.steps, it.max_visits or "none", it.first_ms, it.last_ms


def _check() -> Sheet:
    columns = ["of", "how many", "seconds", "with upcasters", "MiB at the most"]
    return Sheet(title="`keepstep check`", columns=columns)


def _check_row(it: check.Check) -> Sequence[object]:
    return check.KINDS[it.kind], it.many, it.seconds, it.upcast, it.mib


def _vacuum() -> Sheet:
    columns = ["autovacuum of heads", "steps/s at first", "at last", "a look at what is due, ms", "heads, MiB"]
    title = f"Beside {vacuum.WAITING:,} waiting cases, for {vacuum.SECONDS:g} s"
    return Sheet(title=title, columns=[*columns, "heads_due, MiB", "HOT, %", "dead rows", "vacuums"])


def _vacuum_row(it: vacuum.Vacuum) -> Sequence[object]:
    return it.kind, it.first, it.last, it.look_ms, it.heads, it.due, it.hot, it.dead, it.vacuums


def _recovery(runs: int) -> Sheet:
    title = f"From the death to the step running again, in seconds ({runs} runs each)"
    return Sheet(title=title, columns=["what dies", "median", "worst", "promised"])


def _recovery_row(it: recovery.Figure) -> Sequence[object]:
    return it.name, it.median, max(it.seconds), f"under {it.bound:g}"


TABLES = {
    "speed": Table(_speed, _speed_row),
    "costs": Table(_costs, _costs_row),
    "waiting": Table(_waiting, _waiting_row),
    "mixed": Table(_mixed, _mixed_row),
    "growth": Table(_growth, _growth_row),
    "lengths": Table(_lengths, _lengths_row),
    "pruning": Table(_pruning, _pruning_row),
    "backlog": Table(_backlog, _backlog_row),
    "branches": Table(_branches, _branches_row),
    "parents": Table(_parents, _parents_row),
    "loops": Table(_loops, _loops_row),
    "check": Table(_check, _check_row),
    "vacuum": Table(_vacuum, _vacuum_row),
    "recovery": Table(_recovery, _recovery_row),
}
