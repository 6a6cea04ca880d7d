"""`keepstep dev`: PostgreSQL, Valkey, a worker and Flower, as one thing that starts, runs and ends together."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from keepstep.checkpoint import nodes, schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import child_environment, postgres_url
from keepstep.dev import ports
from keepstep.dev.errors import DevServerError
from keepstep.dev.program import Program, Say, keepstep
from keepstep.dev.servers import Servers
from keepstep.dev.tail import Tail
from keepstep.examples.stub_apis import StubApis
from keepstep.workers import process

DATABASE = "keepstep"
EXAMPLE = "keepstep.examples.intake"
EXAMPLE_SECONDS = 20.0
"""How slow the example's registry is: long enough to kill a worker by hand in the middle of step 34."""

FLOWER_PORT = 5555
SAY_AFTER, LOOK_EVERY = 10.0, 0.05
TOO_SOON = 5.0
"""Seconds. A worker that ends by itself so soon after its start isn't started again: it would end again."""


class WorkerEndsAtOnceError(DevServerError):
    """The worker can't run: most often one of the workflows' modules can't be imported."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"the worker ended at once, with exit code {code}; what it said is above.")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What the stack consists of. workflows: modules; none: the example with its stub APIs. flower: its port."""

    home: Path
    workflows: Sequence[str] = ()
    flower: int | None = FLOWER_PORT
    worker_options: Sequence[str] = ()


class Stack:
    """The whole stack; a context manager. say: gets all that its parts print."""

    def __init__(self, plan: Plan, say: Say):
        self.plan, self._say = plan, say
        self.servers = Servers(plan.home, tell=lambda line: say("dev", line))
        self.database_url = self.broker_url = ""
        self._stub = None if plan.workflows else StubApis(slow_seconds=EXAMPLE_SECONDS)
        self.workflows = ",".join(plan.workflows or (EXAMPLE,))
        self._tail: Tail | None = None
        self._programs: list[Program] = []
        self._worker_since = 0.0

    def __enter__(self) -> Stack:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def exports(self) -> dict[str, str]:
        """The variables for another terminal."""
        found = {
            "KEEPSTEP_DATABASE_URL": self.database_url,
            "KEEPSTEP_BROKER_URL": self.broker_url,
            "KEEPSTEP_WORKFLOWS": self.workflows,
        }
        return found if self._stub is None else {**found, "KEEPSTEP_STUB_URL": self._stub.url}

    @property
    def flower_url(self) -> str | None:
        """Where Flower is; None: it is left out."""
        return None if self.plan.flower is None else f"http://{ports.LOOPBACK}:{self.plan.flower}"

    @property
    def is_example(self) -> bool:
        """Whether the example runs, for want of workflows."""
        return self._stub is not None

    def _start(self) -> None:
        self.servers.start()
        self.broker_url = self.servers.valkey.url
        self.database_url = prepared_database(self.servers)
        self._tail = Tail({"postgres": self.servers.postgres.log, "valkey": self.servers.valkey.log}, self._say)
        self._tail.start()
        if self._stub is not None:
            self._stub.start()
        env = child_environment(
            database_url=self.database_url,
            broker_url=self.broker_url,
            workflows=self.workflows,
            stub_url=None if self._stub is None else self._stub.url,
        )
        self._await_worker(self._add("worker", keepstep("worker", *self.plan.worker_options), env))
        if self.plan.flower is not None:
            self._add("flower", keepstep("flower", f"--port={self.plan.flower}"), env)

    def _add(self, name: str, command: list[str], env: dict[str, str]) -> Program:
        program = Program(name, command, env=env, say=self._say)
        self._programs.append(program)
        program.start()
        if name == "worker":
            self._worker_since = time.monotonic()
        return program

    def _await_worker(self, worker: Program) -> None:
        """Wait until the worker's node has registered itself, however slow the workflows' imports are."""
        database = Database(postgres_url(self.database_url), pool_size=1)
        say_at = time.monotonic() + SAY_AFTER
        try:
            while registered_at(database, worker.pid) is None:
                if worker.exit_code is not None:
                    raise WorkerEndsAtOnceError(code=worker.exit_code)
                if time.monotonic() > say_at:
                    say_at = math.inf
                    self._say("dev", "the worker is not ready yet; still waiting for it")
                time.sleep(LOOK_EVERY)
        finally:
            database.dispose()

    def look_after(self) -> None:
        """Start again what has ended, as an orchestrator would; WorkerEndsAtOnceError if that would not help."""
        for program in self._programs:
            code = program.exit_code
            if code is None:
                continue
            if program.name != "worker":
                self._say("dev", f"{program.name} has ended with exit code {code}; the rest goes on")
                self._programs.remove(program)
                return
            if code < 128 and time.monotonic() - self._worker_since < TOO_SOON:
                raise WorkerEndsAtOnceError(code=code)
            self._say("dev", f"the worker has ended with exit code {code}; it is started again")
            program.start()
            self._worker_since = time.monotonic()

    def stop(self) -> None:
        """Stop everything, the programs first; nothing is left when this returns."""
        for program in self._programs:
            program.ask_to_stop()
        for program in self._programs:
            program.stop()
        if self._stub is not None:
            self._stub.stop()
        if self._tail is not None:
            self._tail.stop()
        self.servers.stop()


def registered_at(database: Database, pid: int) -> datetime | None:
    """When the worker with this main process registered its node; None: it has not, or it has ended."""
    identity = process.identity(pid)
    return next((node.started_at for node in nodes.everyone(database) if node.process == identity), None)


def prepared_database(servers: Servers, name: str = DATABASE) -> str:
    """Make the database unless it is there, bring its tables up to date, and return its URL."""
    admin = Database(postgres_url(servers.postgres.url), pool_size=1)
    if admin.one(sa.text("select from pg_database where datname = :name"), {"name": name}) is None:
        admin.run(sa.text(f'create database "{name}"'), {})
    admin.dispose()
    url = servers.postgres.url_for(name)
    database = Database(postgres_url(url), pool_size=1)
    schema.upgrade(database)
    database.dispose()
    return url


def flower_port(wanted: int | None) -> int:
    """The wanted port; if none is wanted, Flower's usual one, or any other if that is taken."""
    if wanted is not None:
        return wanted
    return FLOWER_PORT if ports.is_free(FLOWER_PORT) else ports.free_port()
