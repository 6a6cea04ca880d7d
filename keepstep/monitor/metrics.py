"""Metrics for Prometheus, all read from PostgreSQL and the broker: workers pay nothing for them but a few bytes.

What happened (steps, attempts, waits for a worker) is read as rows since the last look, and added up here, so counters
begin at zero when this process starts; rates over them are right all the same. What is (cases, queues) is counted anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from sqlalchemy.exc import SQLAlchemyError

from keepstep.checkpoint import census, codec
from keepstep.checkpoint import queues as queue_reads
from keepstep.checkpoint.queues import QueueView
from keepstep.checkpoint.sql import queues as sql
from keepstep.monitor.buckets import Buckets, Counts
from keepstep.steps.errors import KeepstepError
from keepstep.workers.client import Client

EVERY = 5.0
"""Seconds between two looks."""
SETTLED = 2.0
"""Seconds after which a row is surely visible: what is younger is left to the next look."""
FURTHEST = 60.0
"""Seconds that one look covers at the most; after a longer outage it takes several to catch up."""
CENSUS_EVERY = 60.0
MOST_CASES = 1_000_000
"""Ended cases of a status are counted up to here."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
BYTES = (100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 4e6)

UNKNOWN = "(unknown)"
"""The queue of a step whose worker has left since, and didn't say it."""

RECOVERIES = ("crashed", "node_died", "timed_out", "orphaned", "released")

log = logging.getLogger("keepstep.metrics")


class Exporter:
    """Looks every few seconds in a thread of its own; `collect` tells what it has seen, and never waits."""

    def __init__(self, client: Client):
        self._client = client
        self.steps = Counts(("workflow", "step"))
        self.completed = Counts(("workflow",))
        self.attempts = Counts(("workflow", "outcome"))
        self.recoveries = Counts(("outcome",))
        self.refused = Counts(("reason",))
        self.rung_again = Counts(())
        self.took = Buckets(("workflow", "step"), SECONDS)
        self.waited = Buckets(("queue",), SECONDS)
        self.bytes = Buckets(("workflow",), BYTES)
        self._tallies: dict[UUID, dict[str, int]] | None = None
        self._until: datetime | None = None
        self._gauges: list[Metric] = []
        self._census: list[Metric] = []
        self._census_at = float("-inf")
        self._up, self._looked_at = 0.0, 0.0
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._looking, name="keepstep-metrics", daemon=True)

    def start(self) -> None:
        """Look once now, then in the thread."""
        self.look()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self._thread.join(10)

    def _looking(self) -> None:
        while not self._over.wait(EVERY):
            self.look()

    def look(self) -> None:
        """Read what is new. What can't be read now is read by a later look."""
        try:
            with self._lock:
                self._happened()
                self._counted()
            gauges = self._is()
            if time.monotonic() - self._census_at >= CENSUS_EVERY:
                self._census, self._census_at = self._cases(), time.monotonic()
            self._gauges, self._up, self._looked_at = gauges, 1.0, time.time()
        except (KeepstepError, SQLAlchemyError) as error:
            self._up, self._gauges = 0.0, []
            log.warning("nothing can be measured: %s", str(error).splitlines()[0])

    # ------------------------------------------------------------------------------------------- what has happened
    def _happened(self) -> None:
        db = self._client.db
        settled: datetime = db.all(sql.CLOCK, {"settled": SETTLED})[0].until
        since = self._until or settled
        while since < settled:
            until = min(settled, since + timedelta(seconds=FURTHEST))
            between = {"since": since, "until": until}
            buckets = {"took": list(SECONDS), "bytes": list(BYTES)}
            steps = db.all(sql.STEPS, between | buckets)
            waits = db.all(sql.WAITED, between | {"waited": list(SECONDS)})
            attempts = db.all(sql.ATTEMPTS, between)
            for row in steps:
                self.steps.add((row.workflow, row.step), row.steps)
                self.completed.add((row.workflow,), row.completed)
                self.took.add((row.workflow, row.step), row.bucket, row.steps, float(row.took))
                self.bytes.add((row.workflow,), row.bytes_bucket, row.steps, float(row.bytes))
            for row in waits:
                self.waited.add((row.queue or UNKNOWN,), row.bucket, row.steps, float(row.waited))
            for row in attempts:
                self.attempts.add((row.workflow, row.outcome), row.attempts)
                if row.outcome in RECOVERIES:
                    self.recoveries.add((row.outcome,), row.attempts)
            since = self._until = until
        self._until = since

    def _counted(self) -> None:
        """What the nodes have counted of themselves, from where they were when this process first saw them."""
        seen: dict[UUID, dict[str, int]] = {}
        for row in self._client.db.all(sql.TALLIES):
            counted = seen[row.id] = codec.decode(row.tallies)
            before = counted if self._tallies is None else self._tallies.get(row.id, {})
            for name, number in counted.items():
                more = max(0, number - before.get(name, 0))
                if name == "rung_again":
                    self.rung_again.add((), more)
                else:
                    self.refused.add((name,), more)
        self.rung_again.add((), 0)
        self._tallies = seen

    # ------------------------------------------------------------------------------------------------------ what is
    def _is(self) -> list[Metric]:
        db, live = self._client.db, self._client.nodes()
        queues = [
            replace(one, depth=self._client.depth(one.name)) for one in queue_reads.queues(db, live, seconds=None)
        ]

        def of_queue(name: str, told: str, value: Callable[[QueueView], float | None]) -> Metric:
            return _gauge(f"queue_{name}", told, "queue", ((q.name, v) for q in queues if (v := value(q)) is not None))

        return [
            of_queue("waiting_cases", "Cases that wait for a worker.", lambda q: q.queued),
            of_queue("oldest_seconds", "How long the first of them has been waiting.", lambda q: q.oldest or 0.0),
            of_queue("running_steps", "Steps that run.", lambda q: q.running),
            of_queue("slots", "Steps that the live workers can run at once.", lambda q: q.slots),
            of_queue("workers", "Live workers that read the queue.", lambda q: q.workers),
            of_queue("messages", "Messages in the broker's queue.", lambda q: q.depth),
            _gauge("workers", "Live workers, by keepstep's release.", "version", _tally(node.version for node in live)),
            _one("sweep_lag_seconds", "By how much the sweep is behind.", queue_reads.lag(db)[0]),
            _one("oldest_question_seconds", "Age of the first open question.", queue_reads.oldest_wait(db) or 0.0),
        ]

    def _cases(self) -> list[Metric]:
        counted = census.census(self._client.db, most=MOST_CASES, live=MOST_CASES)
        return [
            _gauge("cases", "Cases by status; each count stops at a million.", "status", counted.cases.items()),
            _one("paused_cases", "Live cases that are paused.", counted.paused),
        ]

    # --------------------------------------------------------------------------------------------------------- told
    def collect(self) -> Iterable[Metric]:
        """All metrics, for prometheus_client's registry."""
        yield _one("up", "Whether PostgreSQL could be read at the last look.", self._up)
        yield _one("looked_at_timestamp_seconds", "When that was.", self._looked_at)
        yield from self._census
        yield from self._gauges
        with self._lock:
            yield _counter("steps", "Steps that were committed.", self.steps)
            yield _counter("completed_cases", "Cases that went through all their steps.", self.completed)
            yield _counter("vain_attempts", "Attempts that came to nothing, by what became of them.", self.attempts)
            yield _counter("recoveries", "Steps that were taken from a dead, silent or late worker.", self.recoveries)
            yield _counter("claims_refused", "Messages that led to no attempt, by the reason.", self.refused)
            yield _counter("rung_again", "Messages that the sweep sent again.", self.rung_again)
            yield _histogram("step_seconds", "How long steps ran.", self.took)
            yield _histogram("queue_wait_seconds", "From the commit that made a step ready to its claim.", self.waited)
            yield _histogram("checkpoint_bytes", "What steps wrote.", self.bytes)


def _tally(names: Iterable[str]) -> list[tuple[str, int]]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return sorted(found.items())


def _one(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(f"keepstep_{name}", told, value=value)


def _gauge(name: str, told: str, label: str, values: Iterable[tuple[str, Any]]) -> Metric:
    family = GaugeMetricFamily(f"keepstep_{name}", told, labels=[label])
    for text, value in values:
        family.add_metric([str(text)], float(value))
    return family


def _counter(name: str, told: str, counts: Counts) -> Metric:
    family = CounterMetricFamily(f"keepstep_{name}", told, labels=list(counts.names))
    for labels, number in counts.by.items():
        family.add_metric(list(labels), number)
    return family


def _histogram(name: str, told: str, buckets: Buckets) -> Metric:
    family = HistogramMetricFamily(f"keepstep_{name}", told, labels=list(buckets.names))
    for labels, rows, total in buckets.cumulative():
        family.add_metric(list(labels), buckets=rows, sum_value=total)
    return family
