"""Where a crash test takes place: a database with a clock, a broker, a folder of points, a worker, and a client."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID, uuid4

import sqlalchemy as sa

from keepstep.checkpoint.database import Database, Row
from keepstep.config.settings import postgres_url
from keepstep.steps.workflow import Workflow
from keepstep.testing.backends import Backends
from keepstep.testing.clock import Clock
from keepstep.testing.crash.answers import Answers, Signals
from keepstep.testing.crash.crew import Crew
from keepstep.testing.crash.facts import FAMILY
from keepstep.testing.crash.points import Points
from keepstep.testing.due import next_due, now
from keepstep.testing.prepared import prepare
from keepstep.workers.client import Client

CHILDREN = 4
"""Processes of the worker's pool. One worker is enough: if it is killed as a whole, it is started again."""
EVERY = 0.05
RESTING, QUEUED = 0.05, 0.5
"""Seconds in which nothing has changed, before the clock is put forward: where nobody has anything to do, and where
cases are queued, whose messages may be on their way still, or lost."""

# is_full: it waits for branches, and no others can begin before one of those that have begun ends.
_STANDING = sa.text(f"""{FAMILY}
select h.id, k.parent, h.status, h.seq, h.attempt,
       exists (select from keepstep.fans o
                where o.case_id = h.id and o.seq = h.seq and o.fate is null
                  and (o.made = o.total or o.max_running <= (
                         select count(*) from keepstep.cases b
                          where b.parent = o.case_id and b.parent_seq = o.seq and b.status is null))) as is_full
  from family f join keepstep.heads h on h.id = f.id join keepstep.cases k on k.id = f.id order by h.id
""")

# Whoever claims waits until the clock stands where it will: no attempt is taken for overdue because of us.
_HALT_CLAIMS = sa.text("lock table keepstep.heads in share mode")
_RUNNING = sa.text("select exists (select from keepstep.heads where status = 'running') as any")


class Stuck(AssertionError):
    """The cases don't come to an end; the message says where they stand and what the worker said."""


class Stage:
    """A context manager: brings up what is needed, and leaves nothing running.

    workflows: modules for the worker. signals: what cases get that wait. timeout: seconds for one scene.
    """

    def __init__(
        self,
        workflow: Workflow,
        workflows: Sequence[str],
        *,
        signals: Signals,
        database_url: str | None,
        broker_url: str | None,
        env: Mapping[str, str],
        timeout: float,
    ):
        self.workflow, self._workflows, self._signals, self._env = workflow, workflows, signals, env
        self._database_url, self._broker_url, self._timeout = database_url, broker_url, timeout
        self.prefix = f"crash-{uuid4().hex[:8]}-"
        self._stack = ExitStack()
        self._moved_at = self._changed_at = time.monotonic()
        self._seen: object = None
        self.db: Database
        self.client: Client
        self.points: Points
        self.crew: Crew
        self._clock: Clock
        self._answers: Answers

    def __enter__(self) -> Stage:
        try:
            self._set_up()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _set_up(self) -> None:
        enter = self._stack.enter_context
        backends = enter(Backends(broker_url=self._broker_url))
        url = self._database_url or enter(backends.database())
        self._clock = prepare(url)
        self.db = Database(postgres_url(url), pool_size=2, application_name="keepstep crash test")
        self._stack.callback(self.db.dispose)
        self.client = enter(Client(url, backends.broker_url, workflows=[self.workflow]))
        folder = enter(tempfile.TemporaryDirectory(prefix="keepstep-points-", ignore_cleanup_errors=True))
        self.points = Points(Path(folder))
        self._answers = Answers(self.db, self.client, self._signals, self.prefix)
        env = {
            "KEEPSTEP_DATABASE_URL": url,
            "KEEPSTEP_BROKER_URL": backends.broker_url,
            "KEEPSTEP_WORKFLOWS": ",".join(self._workflows),
            "KEEPSTEP_FAILPOINTS": folder,
            "KEEPSTEP_BEAT_SECONDS": "0.2",
            "KEEPSTEP_EVENTS": "false",
            "KEEPSTEP_BATCH": "1",  # or a case would die of another one's kill, and its verdict be about both
            **self._env,
        }
        self.crew = enter(Crew(self.db, env, children=CHILDREN))

    def begin(self) -> float:
        """A scene begins; when it must be over."""
        self._moved_at = self._changed_at = time.monotonic()
        return time.monotonic() + self._timeout

    def tick(self, end: float) -> bool:
        """Look after the worker, answer, put the clock forward if all stands still. False: every case is at rest.

        At rest: it has ended, is held, or waits for branches that are. Raises Stuck when nothing can move a case any
        more, or after `end`.
        """
        self.crew.look_after()
        answered = self._answers.give()
        rows = self.db.all(_STANDING, {"prefix": self.prefix})
        resting = _resting(rows)
        standing = Counter(row.status for row in rows if row.id not in resting)
        if not standing:
            return False
        at = time.monotonic()
        if at > end:
            raise Stuck(f"after {self._timeout:g} s cases are still {_counted(standing)}.{self._said()}")
        if answered or "running" in standing or rows != self._seen:
            self._changed_at, self._seen = at, rows
        elif at - self._changed_at > (QUEUED if "queued" in standing else RESTING):
            self._let_time_pass(standing)
        time.sleep(EVERY)
        return True

    def _let_time_pass(self, standing: Mapping[str, int]) -> None:
        """Put the clock forward to what is due next, and to what has come to its wait in as short a time after it."""
        self._changed_at = time.monotonic()
        due, since = next_due(self.db, ending=True, queued=True, past=True), self._changed_at - self._moved_at
        if due is None:
            why = "; ".join(sorted(set(self._answers.unanswerable()))) or f"cases are {_counted(standing)}"
            raise Stuck(f"nothing can move the case any more: {why}. Give signals={{name: payload}}.{self._said()}")
        left = (due - now(self.db)).total_seconds()
        if left <= 0:
            return  # the next sweep takes it
        with self.db.transaction() as connection:
            connection.execute(_HALT_CLAIMS)
            if not connection.execute(_RUNNING).scalar_one():
                self._clock.advance(left + since)
                self._moved_at = self._changed_at

    def _said(self) -> str:
        tail = self.crew.tail()
        return f"\nThe worker said:\n{tail}" if tail else ""


def _resting(rows: Sequence[Row]) -> set[UUID]:
    """The held cases, and those that can only wait for them."""
    below: dict[UUID, list[UUID]] = {}
    for row in rows:
        if row.parent is not None:
            below.setdefault(row.parent, []).append(row.id)
    resting: set[UUID] = {row.id for row in rows if row.status == "held"}
    while more := {
        row.id
        for row in rows
        if row.is_full and row.id not in resting and row.id in below and resting.issuperset(below[row.id])
    }:
        resting |= more
    return resting


def _counted(standing: Mapping[str, int]) -> str:
    return ", ".join(f"{status} ({cases})" for status, cases in sorted(standing.items()))
