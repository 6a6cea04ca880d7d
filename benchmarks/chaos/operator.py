"""The people: one answers what cases ask, and moves what is held as the documents say.

Of a call in doubt they look whether its effect was made: then the step is skipped with what it would have returned,
else it is tried again. They look when nothing of the attempt can be under way any more: a worker that fell silent is
waited for, until it is gone or has come back, since nobody else knows whether it is still about to call.
"""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime

from benchmarks.chaos import outside
from benchmarks.chaos.backend import answer
from benchmarks.chaos.dice import dice
from benchmarks.chaos.stage import Stage
from benchmarks.chaos.workflow import changes, chaos, errands
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.sql import nodes
from keepstep.steps.errors import CaseError
from keepstep.steps.keys import idempotency_key

EVERY = 0.5
IN_DOUBT = "in doubt"
SILENT = ("node_died", "orphaned", "timed_out", "Timeout")
"""Reasons that say that nobody heard from the attempt any more, not that it has ended."""
MAY_BE_RETRIED = ("poison", "its node died", "retries ran out")
"""How reasons begin which say that the step had bad luck: it may be tried again under its key."""
HELPED = (chaos.name, f"{chaos.name}.branches", errands.name)
MANY = 10_000


class Operator:
    """A thread that looks every half second. held: how often cases were held, by reason. astonished: reasons that no
    fault explains; those cases are left held. errors: what went wrong with the looking itself.
    """

    def __init__(self, stage: Stage, seed: int):
        self._stage, self._patient, self._seed = stage, stage.patient, seed
        self.held: Counter[str] = Counter()
        self.astonished: dict[str, str] = {}
        self.errors: list[BaseException] = []
        self._seen: set[tuple[str, int, datetime | None]] = set()
        self._pids: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos operator", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Go home."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(EVERY):
            try:
                self._know_the_nodes()
                self._answer()
                for name in HELPED:
                    for case in self._patient(lambda n=name: self._held(n)):
                        self._move(case)
            except Exception as error:  # noqa: BLE001  (they come again in half a second; the run tells of it)
                self.errors.append(error)

    def _held(self, workflow: str) -> list[Case]:
        return list(self._stage.client.list(workflow=workflow, status="held", limit=MANY))

    def _know_the_nodes(self) -> None:
        for row in self._patient(lambda: self._stage.db.all(nodes.LIST)):
            self._pids[str(row.id)] = int(row.process.partition(":")[0])

    def _answer(self) -> None:
        """Some answer at once, some only after seconds; under a key, so that it may be repeated."""
        now = datetime.now(UTC)
        for asked in self._patient(lambda: self._stage.client.inbox(workflow=chaos.name, limit=MANY)):
            delay = dice(self._seed, asked.thread_id, "late").uniform(0, 4)
            if asked.name == "late" and (now - asked.opened_at).total_seconds() >= delay:
                self._tell(asked.thread_id)

    def _tell(self, thread_id: str) -> None:
        what, key = answer("late", thread_id), f"late of {thread_id}"
        self._patient(
            lambda: self._stage.client.signal(chaos, thread_id, "late", what, actor="operator", dedupe_key=key)
        )

    # ------------------------------------------------------------------------------------------------ what is held
    def _move(self, listed: Case) -> None:
        case = self._patient(lambda: self._stage.client.get(listed.workflow, listed.thread_id))
        if case.status != "held" or case.reason is None or case.step is None:
            return
        why, kind = str(case.reason.get("why")), str(case.reason.get("type"))
        if (case.thread_id, case.seq, case.since) not in self._seen:
            self._seen.add((case.thread_id, case.seq, case.since))
            self.held[f"{IN_DOUBT}: {kind}" if why.startswith(IN_DOUBT) else why] += 1
        try:
            if why.startswith(IN_DOUBT):
                self._look(case, kind)
            elif why.startswith(MAY_BE_RETRIED):
                name = case.workflow, case.thread_id
                self._patient(lambda: self._stage.client.retry(*name, actor="operator", reason=why))
            else:
                self.astonished[case.thread_id] = f"{case.step}#{case.seq}: {case.reason}"
        except CaseError:
            return  # it has moved meanwhile: a late result was kept

    def _look(self, case: Case, kind: str) -> None:
        assert case.step is not None  # it is held, so it stands at a step
        if kind in SILENT and not self._stage.fleet.is_quiet(self._pid_of_the_attempt(case)):
            return
        receipt = outside.receipt_of(case.thread_id, str(idempotency_key(case.run, case.seq, case.step)))
        name, step, seen = case.thread_id, case.step, case.seq
        if receipt is None:
            self._patient(lambda: self._stage.client.retry(chaos, name, actor="operator", reason="it was not made"))
            return
        update = changes(case.state["log"], case.state["receipts"], step, {step: receipt})
        said = {"actor": "operator", "reason": "it was made"}
        self._patient(lambda: self._stage.client.skip(chaos, name, update=update, seen=seen, **said))

    def _pid_of_the_attempt(self, case: Case) -> int | None:
        """Of the worker whose attempt is in doubt; None if it was never seen."""
        history = self._patient(lambda: self._stage.client.history(chaos, case.thread_id))
        tried = [event for event in history if event.kind in SILENT and event.seq == case.seq]
        return self._pids.get(str(tried[-1].detail["node"])) if tried else None
