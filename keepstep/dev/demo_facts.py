"""What a run of the demo has left behind: in PostgreSQL, and at the outside services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keepstep.checkpoint.reads import Case, Event
from keepstep.examples.intake import intake
from keepstep.examples.stub_apis import StubApis
from keepstep.steps.keys import idempotency_key
from keepstep.workers.client import Client


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One line of the timeline: a checkpoint. calls, effects: at the outside services, under the step's key.

    number: the step's place in the workflow; None for a signal. at, took: seconds, since the start and in all.
    """

    number: int | None
    name: str
    kind: str
    at: float
    took: float
    attempts: int
    calls: int
    effects: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the verdicts are drawn from. killed_at, ready_at, resumed_at: seconds since 1970.

    at_rest: while the case waited for a person, there was no message of it in Redis. lost_attempts: what came to
    nothing, as (step, outcome).
    """

    case: Case
    stages: Sequence[Stage]
    lost_attempts: Sequence[tuple[str, str]]
    keys: dict[str, dict[str, Any]]
    calls: int
    killed_at: float
    ready_at: float
    resumed_at: float
    at_rest: bool

    @property
    def stood_still(self) -> float:
        """Seconds from the kill until step 34 was running again."""
        return self.resumed_at - self.killed_at

    @property
    def after_ready(self) -> float:
        """Seconds from the new worker's registration until step 34 was running again."""
        return self.resumed_at - self.ready_at


def gather(
    client: Client,
    stub: StubApis,
    thread_id: str,
    *,
    killed_at: float,
    ready_at: float,
    resumed_at: float,
    at_rest: bool,
) -> Facts:
    """Read everything once the case has ended."""
    case, report = client.get(intake, thread_id), stub.calls()
    events = client.history(intake, thread_id)
    begin = events[0]
    marks = [event for event in events if event.kind in ("step", "signal", "timeout")]
    return Facts(
        case=case,
        stages=[_stage(event, begin, case, report["keys"]) for event in marks],
        lost_attempts=[
            (e.step, e.kind) for e in events if e.kind not in ("start", "step", "signal", "timeout", "sent")
        ],
        keys=report["keys"],
        calls=len(report["calls"]),
        killed_at=killed_at,
        ready_at=ready_at,
        resumed_at=resumed_at,
        at_rest=at_rest,
    )


def _stage(event: Event, begin: Event, case: Case, keys: dict[str, dict[str, Any]]) -> Stage:
    started = event.detail["started_at"] or event.at
    # a step's key is made from the checkpoint that it starts from, which is the one before its own
    key = keys.get(str(idempotency_key(case.run, (event.seq or 1) - 1, event.step)), {})
    names = list(intake.steps)
    return Stage(
        number=names.index(event.step) + 1 if event.kind == "step" else None,
        name=event.step,
        kind=event.kind,
        at=(started - begin.at).total_seconds(),
        took=(event.at - started).total_seconds(),
        attempts=int(event.detail["attempt"] or 1),
        calls=int(key.get("raw", 0)),
        effects=int(key.get("effects", 0)),
    )
