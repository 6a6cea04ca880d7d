"""What a step stores and how long it takes as cases get longer and states larger: claim, decide, commit, one by one.

By hand in one process, without messages or workers, so that nothing else is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from pydantic import BaseModel

from benchmarks.rig import Rig, rig
from benchmarks.shape import Shape
from keepstep import Call, Log, Workflow, goto
from keepstep.checkpoint import births, claims, commits
from keepstep.checkpoint.blobs import fetching
from keepstep.checkpoint.claims import Claim, Claimant, Delivery
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.parked import LARGE
from keepstep.steps import upcasts
from keepstep.steps.decide import Returned, View, decide

MOST = 64 * 2**20
TABLES = ("checkpoints", "heads", "cases", "blobs")


class Grown(BaseModel):
    """ballast: what the state is large by. at, note: scalars. numbers, messages: lists that gain one item a step, a
    number or a message of a KiB; logged_numbers, logged_messages: the same as logs. document: a large value.
    """

    at: int = 0
    note: str = ""
    ballast: list[str] = []
    numbers: list[int] = []
    messages: list[str] = []
    logged_numbers: Log[int] = Log()
    logged_messages: Log[str] = Log()
    document: str = ""


flow = Workflow("lengths", state=Grown)


@flow.step
def step(_state: Grown, _call: Call) -> None:
    """Goes round; what it returns is said by the measurement."""


def scalars(_state: Grown, number: int) -> dict[str, Any]:
    """Two scalars change."""
    return {"at": number, "note": f"step {number} of the case is done"}


def appends(state: Grown, number: int) -> dict[str, Any]:
    """A list gains a number."""
    return {"numbers": [*state.numbers, number]}


def messages(state: Grown, number: int) -> dict[str, Any]:
    """A list gains a message of 1 KiB, in words that compress as words do."""
    return {"messages": [*state.messages, words(1024, number)]}


def log_appends(state: Grown, number: int) -> dict[str, Any]:
    """A log gains a number."""
    state.logged_numbers.append(number)
    return {}


def log_messages(state: Grown, number: int) -> dict[str, Any]:
    """A log gains a message of 1 KiB, and nothing of it is read."""
    state.logged_messages.append(words(1024, number))
    return {}


def log_window(state: Grown, number: int) -> dict[str, Any]:
    """The same, and the last twenty are read before."""
    assert len(state.logged_messages[-20:]) == min(number, 20)
    return log_messages(state, number)


def document(_state: Grown, number: int) -> dict[str, Any]:
    """There is a value of 100 KiB, and a scalar changes."""
    return {"at": number} if number else {"document": words(100 * 1024, number)}


@dataclass(frozen=True, kw_only=True)
class Length:
    """A measurement: cases of so many steps, with so many KiB of state, each step changing it so.

    large: bytes from which on a value is stored apart.
    """

    steps: int
    kib: int
    change: Callable[[Grown, int], dict[str, Any]] = field(repr=False)
    large: int = LARGE

    @property
    def cases(self) -> int:
        """So many that there are some thousand steps: else files that grow by pages of 8 KiB would count."""
        steps = 400 if self.kib >= 50 else 8000 if self.steps < 100 else 2000
        return max(1, steps // self.steps)

    def __str__(self) -> str:
        inline = ", nothing apart" if self.large > LARGE else ""
        return f"{self.steps:,} steps, {self.kib} KiB, {self.change.__name__}{inline}"


LENGTHS = (
    *(Length(steps=n, kib=kib, change=c) for c in (scalars, appends) for kib in (1, 50) for n in (40, 400, 2000)),
    *(Length(steps=n, kib=50, change=log_appends) for n in (40, 400, 2000)),
    *(Length(steps=n, kib=1, change=messages) for n in (40, 400, 1000)),
    *(Length(steps=n, kib=1, change=c) for c in (log_messages, log_window) for n in (40, 400, 1000, 10_000)),
    *(Length(steps=400, kib=1, change=document, large=large) for large in (LARGE, MOST)),
)


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Bytes are of a step. first_ms, last_ms: of a step, of the first and the last tenth. resume_ms: to load the case.

    resume_ms: seven steps before its end.
    """

    length: Length
    stored: float
    payload: float
    wal: float
    first_ms: float
    last_ms: float
    resume_ms: float


def measured(_shape: Shape, length: Length) -> Growth:
    """As `measure`; no shape changes it, since nothing runs."""
    return measure(length)


def measure(length: Length) -> Growth:
    """On a database of its own."""
    with _fresh() as built:
        one = Case(built.db, length, "warm")
        for number in range(min(40, length.steps)):
            one.step(number)
        stored, wal, payload = _stored(built), _wal(built), _payload(built)
        took: list[list[float]] = []
        resumed: list[float] = []
        for number in range(length.cases):
            times, loads = _run(Case(built.db, length, f"C{number}"), length.steps)
            took.append(times)
            resumed += loads
        steps = length.cases * length.steps
        part = max(4, length.steps // 10)
        return Growth(
            length=length,
            stored=(_stored(built) - stored) / steps,
            payload=(_payload(built) - payload) / steps,
            wal=(_wal(built) - wal) / steps,
            first_ms=1000 * statistics.median(t for times in took for t in times[:part]),
            last_ms=1000 * statistics.median(t for times in took for t in times[-part:]),
            resume_ms=1000 * statistics.median(resumed),
        )


def _run(case: Case, steps: int) -> tuple[list[float], list[float]]:
    """Seconds of each step, and of some loads seven steps before the end."""
    times, loads = [], []
    for number in range(steps):
        if number == steps - 7:
            loads = [case.load() for _ in range(7)]
        began = time.perf_counter()
        case.step(number)
        times.append(time.perf_counter() - began)
    return times, loads


class Case:
    """One case, taken through its steps by hand."""

    def __init__(self, db: Database, length: Length, thread_id: str):
        self._db, self._length = db, length
        ballast = [words(1024, number) for number in range(max(1, length.kib - 1))]
        state = {"ballast": ballast}
        self._id = births.start(db, flow, thread_id, state, max_state_bytes=MOST).id
        self._claimant = Claimant(owner=uuid4(), executor="1:1", known='{"lengths": 1}')
        self._seq = 0

    def claim(self) -> Claim:
        claimed = claims.claim(self._db, Delivery(case=self._id, seq=self._seq), self._claimant, uuid4())
        assert claimed is not None
        assert claimed.state is not None
        return claimed

    def load(self) -> float:
        """Seconds to claim and to load; it is given back by hand."""
        began = time.perf_counter()
        upcasts.load(flow, self.claim().state or {}, 1, fetch=fetching(self._db.all, self._id))
        took = time.perf_counter() - began
        self._db.run(sa.text("update keepstep.heads set status = 'queued', lease = null"), {})
        return took

    def step(self, number: int) -> None:
        """As a worker does: claim, load, decide, weigh, commit."""
        claimed = self.claim()
        fetch = fetching(self._db.all, self._id)
        before, copy, text = upcasts.load(flow, claimed.state or {}, claimed.schema_version, claimed.text, fetch=fetch)
        assert isinstance(copy, Grown)
        found = flow.find("step")
        assert found is not None
        change = self._length.change(copy, number)
        value = goto("step", **change) if number + 1 < self._length.steps else change  # the last one ends the case
        view = View(workflow=flow, step=found, before=before, before_text=text, fetch=fetch)
        decision = decide(view, Returned(value=value, copy=copy))
        stored = commits.weigh(claimed, decision, max_state_bytes=MOST, large=self._length.large)
        assert commits.commit(self._db, claimed, decision, stored, version=1, took=0.0) is not None
        self._seq += 1


def words(size: int, seed: int) -> str:
    """Text of this size, never twice the same."""
    made = [f"{(seed * 7919 + n * 104729) % 1000003:x}" for n in range(size // 4)]
    return " ".join(made)[:size]


@contextmanager
def _fresh() -> Iterator[Rig]:
    with rig(workflows=[flow], module="benchmarks.lengths") as built:
        built.db.dispose()
        built.db = Database(built.db.url, prepare=True)
        yield built


def _stored(built: Rig) -> float:
    return built.number(f"select {' + '.join(f'''pg_total_relation_size('keepstep.{t}')''' for t in TABLES)}")


def _payload(built: Rig) -> float:
    return built.number("select coalesce(sum(octet_length(payload::text)), 0) from keepstep.checkpoints")


def _wal(built: Rig) -> float:
    return built.number("select pg_current_wal_lsn() - '0/0'::pg_lsn")
