"""`keepstep demo`: a case of 42 steps whose worker is killed, with SIGKILL, in the middle of step 34."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import redis

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.reads import Case
from keepstep.config.settings import child_environment
from keepstep.dev.demo_facts import Facts, gather
from keepstep.dev.errors import DevServerError
from keepstep.dev.program import Program, keepstep
from keepstep.dev.servers import Servers
from keepstep.dev.stack import prepared_database, registered_at
from keepstep.examples.intake import intake
from keepstep.examples.stub_answers import SLOW_ENDPOINT
from keepstep.examples.stub_apis import StubApis
from keepstep.workers.client import Client

THREAD_ID = "APP-1042"
ACTORS = ("underwriter-7", "underwriter-9")
SLOW_STEP, WAITING_STEP = "await_registry_extract", "ask_underwriter"
STEPS = tuple(intake.steps)
QUEUES = ("keepstep", "slow-api")

SLOW_SECONDS = 6.0
"""How long the registry takes: long enough to kill a worker in the middle, and to have another one up."""
WATCH = 1.0
"""Seconds for which step 34 is seen to wait before its worker is killed."""
EVERY, PATIENCE = 0.02, 30.0


class DemoFailedError(DevServerError):
    """Something that the demo waited for did not come. log: what the workers said last."""

    def __init__(self, *, what: str, log: str) -> None:
        super().__init__(f"the demo stopped: {what}")
        self.log = log


class Demo:
    """One run. tell: gets a line for each thing that happens. step: gets the number and name of the current step."""

    def __init__(self, tell: Callable[[str], None], step: Callable[[int, str], None]):
        self._tell, self._step = tell, step
        self._log: deque[str] = deque(maxlen=40)
        self._stack = ExitStack()

    def run(self) -> Facts:
        """Do all of it, and leave nothing running, whatever happens."""
        with self._stack:
            self._start_servers()
            quick, slow = self._worker("quick", "keepstep"), self._worker("slow", "slow-api")
            for worker in (quick, slow):
                self._ready_at(worker)
            self._tell(f"two workers are up: {quick.pid} for the quick steps, {slow.pid} for the slow ones")
            self._case.start(intake, THREAD_ID, {"application": THREAD_ID})
            self._tell(f"the case intake/{THREAD_ID} is started: {len(STEPS)} steps")
            killed_at, ready_at, resumed_at = self._kill(slow)
            at_rest = self._approve()
            self._until(lambda: self._look().ended, "the case to end")
            self._tell(f"the case is {self._look().status}")
            return gather(
                self._case,
                self._stub,
                THREAD_ID,
                killed_at=killed_at,
                ready_at=ready_at,
                resumed_at=resumed_at,
                at_rest=at_rest,
            )

    # ------------------------------------------------------------------------------------------------- the scenes
    def _start_servers(self) -> None:
        servers = self._stack.enter_context(Servers())
        self._stub = self._stack.enter_context(StubApis(slow_seconds=SLOW_SECONDS))
        self._broker_url = servers.valkey.url
        self._database_url = prepared_database(servers)
        self._case = self._stack.enter_context(Client(self._database_url, self._broker_url, workflows=[intake]))
        self._db: Database = self._case.db
        self._tell("PostgreSQL, Valkey and the outside services are up")

    def _kill(self, slow: Program) -> tuple[float, float, float]:
        """Kill the worker in the middle of step 34, start another; when it was killed, ready, and at it again."""
        self._until(self._is_calling, "step 34 to wait for the registry")
        number = STEPS.index(SLOW_STEP) + 1
        self._tell(f"step {number}, {SLOW_STEP}, waits for the land registry")
        time.sleep(WATCH)
        if not self._is_calling():
            raise self._failure("the registry answered before the worker was killed")
        killed_at = time.time()
        slow.kill()
        self._tell(f"kill -9: worker {slow.pid} and its pool are gone, in the middle of the call")
        again = self._worker("slow again", "slow-api")
        self._tell(f"another worker is started: {again.pid}")
        ready_at = self._ready_at(again)
        self._until(lambda: len(self._slow_calls()) > 1, "step 34 to go on")
        self._tell(f"the case goes on with step {number}, under the same idempotency key")
        return killed_at, ready_at, float(self._slow_calls()[1]["at"])

    def _approve(self) -> bool:
        """Give the approval when it is asked for; whether the waiting case had left nothing in the broker."""
        self._until(lambda: self._look().status == "waiting", "the case to ask the underwriter")
        self._tell(f"step {STEPS.index(WAITING_STEP) + 1}, {WAITING_STEP}, waits for a person")
        with redis.Redis.from_url(self._broker_url) as broker:
            try:
                self._until(lambda: self._is_empty(broker), "the broker to be empty", patience=3.0)
                at_rest = True
            except DemoFailedError:
                at_rest = False
        for actor in ACTORS:
            self._case.approve(intake, THREAD_ID, actor=actor, note="fine")
            self._tell(f"{actor} approves")
        return at_rest

    # ------------------------------------------------------------------------------------------------ what is seen
    def _worker(self, name: str, queue: str) -> Program:
        env = child_environment(
            database_url=self._database_url,
            broker_url=self._broker_url,
            workflows="keepstep.examples.intake",
            stub_url=self._stub.url,
        )
        host = name.replace(" ", "-")
        command = keepstep("worker", "-Q", queue, "-c", "1", "-n", f"{host}@%h")
        worker = Program(name, command, env=env, say=lambda who, line: self._log.append(f"{who} | {line}"))
        worker.start()
        self._stack.callback(worker.kill)  # the servers go too: there is nothing that it would have to put in order
        return worker

    def _ready_at(self, worker: Program) -> float:
        """Wait until the worker has registered itself; when that was, in seconds since 1970."""

        def registered() -> datetime | None:
            if worker.exit_code is not None:
                raise self._failure(f"the worker {worker.name!r} ended with exit code {worker.exit_code}")
            return registered_at(self._db, worker.pid)

        found: datetime = self._until(registered, f"the worker {worker.name!r}")
        return found.timestamp()

    def _look(self) -> Case:
        case = self._case.get(intake, THREAD_ID)
        if case.step in STEPS:
            self._step(STEPS.index(case.step) + 1, case.step)
        if case.status in ("held", "failed", "cancelled"):
            raise self._failure(f"the case is {case.status}: {case.reason or case.error}")
        return case

    def _slow_calls(self) -> list[dict[str, Any]]:
        return [call for call in self._stub.calls()["calls"] if call["endpoint"] == SLOW_ENDPOINT]

    def _is_calling(self) -> bool:
        """Whether step 34 is running, has called the registry, and has no answer yet."""
        case = self._look()
        asked = [key for key in self._stub.calls()["keys"].values() if key["endpoint"] == SLOW_ENDPOINT]
        in_the_middle = [key["raw"] >= 1 and key["effects"] == 0 for key in asked] == [True]
        return case.status == "running" and case.step == SLOW_STEP and in_the_middle

    @staticmethod
    def _is_empty(broker: Any) -> bool:
        """Whether Redis has no message but the killed worker's own: it stays unacknowledged, and would be a no-op."""
        of_the_dead = f"('{THREAD_ID}', {STEPS.index(SLOW_STEP)})".encode()
        strangers = [message for message in broker.hvals("unacked") if of_the_dead not in message]
        return not any(broker.llen(queue) for queue in QUEUES) and not strangers

    def _until(self, come: Callable[[], Any], what: str, patience: float = PATIENCE) -> Any:
        end = time.monotonic() + patience
        while not (found := come()):
            if time.monotonic() > end:
                raise self._failure(f"waited {patience:g} s in vain for {what}")
            time.sleep(EVERY)
        return found

    def _failure(self, what: str) -> DemoFailedError:
        return DemoFailedError(what=what, log="\n".join(self._log))
