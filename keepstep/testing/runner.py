"""Runs cases in the test's own process, on a real database, with time skipped.

The engine's own functions do all of it: `execute`, the sweep, the hooks. Two things are others: the bell, which keeps
its messages in memory until the runner takes them, and the database's clock, which can be put forward.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Protocol, Self

from keepstep._version import __version__
from keepstep.checkpoint import nodes, recovery, retention
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import Node
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.ring import Delivery, Ring
from keepstep.checkpoint.signals import Receipt
from keepstep.config.settings import read_settings
from keepstep.steps.branches import Branches
from keepstep.steps.moves import Status
from keepstep.steps.outcome import seconds_of
from keepstep.steps.workflow import Workflow
from keepstep.testing.bell import QueueBell
from keepstep.testing.due import next_due, now
from keepstep.testing.prepared import prepare
from keepstep.testing.replacement import by_workflow, replaced
from keepstep.testing.runner_client import RunnerClient
from keepstep.testing.witness import StepError, Witness
from keepstep.workers import process
from keepstep.workers.client import Started
from keepstep.workers.engine import Engine
from keepstep.workers.execute import execute
from keepstep.workers.hooks import call_hooks
from keepstep.workers.registry import Registry
from keepstep.workers.sweep import Sweep

AHEAD = 60.0
"""Seconds. Cases that somebody else's client has started are rung before they are overdue."""
ALWAYS = 1e-6
"""Seconds between two beats, and so between two looks at what is due: each round of the sweep looks."""
CASES, ERRORS = 20, 5
"""How many a report shows."""


class Named(Protocol):
    """Whatever says which case it is: what `start` returned, or a `Case`."""

    @property
    def workflow(self) -> str: ...
    @property
    def thread_id(self) -> str: ...


class NotReached(AssertionError):
    """The cases came to rest, or went on and on, before what was asked for; the message says where they stand."""


class Runner:
    """Runs workflows on the database at `database_url`, which is the test's own; its clock is put forward for good.

    workflows: Workflow objects, or modules. replace: functions by `workflow.step`, called instead of the step's own
    (`workflow.step.verify`: instead of its verify). max_steps: how much one `run` does before it is taken for endless.
    Tables are made if they are missing. A context manager; one thread at a time. Raises NotATestDatabase.

    client: a real Client for this database. errors: what steps and hooks have raised so far.
    """

    def __init__(
        self,
        database_url: str,
        workflows: Iterable[str | Workflow],
        *,
        replace: Mapping[str, Callable[..., Any]] | None = None,
        max_steps: int = 10_000,
    ):
        witness = Witness()
        registry = _registry(workflows, replace or {}, witness)
        self.clock = prepare(database_url)
        settings = read_settings(database_url=database_url, workflows=(), beat_seconds=ALWAYS)
        self._bell, self._witness, self._max_steps = QueueBell(), witness, max_steps
        database = Database(settings.database_url, application_name="keepstep runner", ping=True)
        self._engine = Engine(settings=settings, db=database, registry=registry, bell=self._bell)
        self._sweep = Sweep(self._engine, executing=lambda: set())
        self._node = _node(self._engine)
        self._beat()
        self._last: Named | None = None
        self._skipped_to: datetime | None = None
        self.client = RunnerClient(self, self._engine)

    def close(self) -> None:
        """Leave the database, which stays as it is."""
        nodes.remove(self._engine.db, [self._node.id])
        self.client.close()
        self._engine.db.dispose()
        self._engine.transactions.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------------ time
    def run(self, *, skip_time: bool = False) -> None:
        """Do all that is to be done now, and what that leads to. Raises NotReached if it doesn't end.

        skip_time: put the clock forward to whatever is due next, until each case has ended, is held, or waits for a
        signal without a deadline.
        """
        self._go(skip_time=skip_time)

    def advance(
        self,
        by: timedelta | float | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Let time pass: what comes due meanwhile is done when it is due, one after the other.

        by: a timedelta or seconds. Raises NotReached as `run` does.
        """
        more = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self.run()  # first, so that what begins to wait now has waited that long at the end
        end = self.now() + timedelta(seconds=seconds_of(0.0 if by is None else by)) + more
        while (due := next_due(self._engine.db, ending=False)) is not None and due <= end:
            self._put_forward_to(due)
            self.run()
        self._put_forward_to(end)
        self.run()
        retention.prune(self._engine.db, self._engine.limits.rows)

    def run_until(
        self, status: str | None = None, *, step: str | None = None, case: Named | None = None, skip_time: bool = False
    ) -> Case:
        """Run until the case has the status, stands before the step, or both; the case. Raises NotReached if it won't.

        case: by default the one that was started last.
        """
        if status is not None and status not in list(Status):
            raise ValueError(f"there is no status {status!r}; they are {', '.join(Status)}")
        named = case or self._last
        if named is None or (status is None and step is None):
            raise ValueError("run_until needs a status or a step to wait for, and a case")

        def there() -> bool:
            found = self.get(named)
            return (status is None or found.status == status) and (step is None or found.step == step)

        if not self._go(until=there, skip_time=skip_time):
            wanted = " at ".join(filter(None, [status, step and repr(step)]))
            hint = "" if skip_time else " What takes time isn't waited for: see advance(...), skip_time=True."
            where = f"{named.workflow}/{named.thread_id} came to rest, and isn't {wanted}."
            raise NotReached(f"{where}{hint}\n{self.report()}")
        return self.get(named)

    def now(self) -> datetime:
        """The time, by the database's clock."""
        return now(self._engine.db)

    # ----------------------------------------------------------------------------------------------------- cases
    def start(self, workflow: str | Workflow, thread_id: str, state: Any, **terms: Any) -> Started:
        """Store a case, as `Client.start` does; `run` runs it."""
        self._last = started = self.client.start(workflow, thread_id, state, **terms)
        return started

    def get(self, case: Named) -> Case:
        """The case as it stands, with its state. Raises UnknownCase."""
        return self.client.get(case.workflow, case.thread_id)

    def signal(self, case: Named, name: str, payload: Any = None, **options: Any) -> Receipt:
        """Send a signal, as `Client.signal` does; `run` does what it leads to."""
        return self.client.signal(case.workflow, case.thread_id, name, payload, **options)

    def approve(self, case: Named, *, actor: str, **options: Any) -> Receipt:
        """Say yes, as `Client.approve` does."""
        return self.client.approve(case.workflow, case.thread_id, actor=actor, **options)

    def reject(self, case: Named, *, actor: str, **options: Any) -> Receipt:
        """Say no, as `Client.reject` does."""
        return self.client.reject(case.workflow, case.thread_id, actor=actor, **options)

    # ---------------------------------------------------------------------------------------------------- failures
    @property
    def errors(self) -> list[StepError]:
        """What steps, verifications and hooks have raised so far, the oldest first."""
        return list(self._witness.errors)

    def report(self) -> str:
        """Where the cases stand and why, and what steps have raised: for the message of a test that fails."""
        lines = [f"By {self.now():%Y-%m-%d %H:%M:%S %Z}:"]
        for case in self.client.list(limit=CASES):
            at = f" at {case.step!r}" if case.step else ""
            lines.append(f"{case.workflow}/{case.thread_id} is {case.status}{at}, seq {case.seq}")
            lines.append(f"    {self.client.why(case.workflow, case.thread_id).sentence}")
        return "\n".join([*lines, *(str(error) for error in self.errors[-ERRORS:])])

    # -------------------------------------------------------------------------------------------------- the engine
    def _go(self, *, until: Callable[[], bool] | None = None, skip_time: bool) -> bool:
        """Do one thing after the other until it is reached, or until there is nothing more to do: False."""
        done = 0
        while until is None or not until():
            message = self._next()
            if message is None:
                if skip_time and self._skip():
                    continue
                return False
            done += 1
            if done > self._max_steps:
                raise NotReached(f"{self._max_steps:,} steps were run, and there are more to do.\n{self.report()}")
            if isinstance(message, Ring):
                execute(self._engine, Delivery(case=message.case, seq=message.seq))
            else:
                call_hooks(self._engine, message.id)
            self._witness.pass_on()
        return True

    def _next(self) -> Any:
        """The next message; if there is none, what is due now, and what somebody else has started."""
        message = self._bell.take()
        if message is not None:
            return message
        engine = self._engine
        self._sweep.round()
        queues = recovery.overdue_queues(engine.db, ahead=AHEAD)
        self._bell.ring(recovery.ring_again(engine.db, queues, engine.limits, ahead=AHEAD))
        return self._bell.take()

    def _skip(self) -> bool:
        """Put the clock forward to what is due next, or has come due since the last look. False: nothing is."""
        due = next_due(self._engine.db, ending=True, past=True)
        if due == self._skipped_to:
            due = next_due(self._engine.db, ending=True)
        if due is not None:
            self._put_forward_to(due)
        self._skipped_to = due
        return due is not None

    def _put_forward_to(self, instant: datetime) -> None:
        self.clock.advance(max(timedelta(0), instant - self.now()))
        self._beat()

    def _beat(self) -> None:
        """Be among the nodes: only what a live node can load is rung, and `why` says who is there."""
        with self._engine.db.connect() as connection:
            nodes.beat(connection, self._node)


def _registry(
    workflows: Iterable[str | Workflow], replace: Mapping[str, Callable[..., Any]], seen: Witness
) -> Registry:
    given = list(workflows)
    loaded = Registry([workflow for workflow in given if isinstance(workflow, Workflow)])
    loaded.load([name for name in given if isinstance(name, str)])
    functions = by_workflow(loaded, replace)
    in_order = sorted(loaded, key=lambda w: not isinstance(w, Branches))  # with a workflow come its own branches
    return Registry([seen.watch(replaced(w, functions[w.name]), functions[w.name]) for w in in_order])


def _node(engine: Engine) -> Node:
    return Node(
        id=engine.node_id,
        host=socket.gethostname(),
        host_id=engine.host_id,
        process=process.executor(),
        queues=engine.registry.queues,
        workflows=engine.registry.versions,
        steps=engine.registry.steps,
        pool="runner",
        concurrency=1,
        version=__version__,
    )
