"""The ledger of a case: its recorded calls, its heartbeats, and all that it called outside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.filters import MOST
from keepstep.checkpoint.late import LATE_BYTES
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.sql import calls as sql
from keepstep.steps.call import Begun, Cost
from keepstep.steps.keys import idempotency_key


@dataclass(frozen=True, kw_only=True)
class RecordedCall:
    """Something that a case called outside: an attempt of a step, or with a `name` a recorded call inside of one.

    seq: the checkpoint it began from. attempt: its number; of a recorded call, how often it was called. outcome:
    "done", "verified", "running", "unfinished", or what became of the attempt. key: its idempotency key; None for
    steps before a restart, which had keys of another run. seconds: how long it took, if that is known. cost: by unit.
    at: when it began, or, of an attempt that came to nothing, ended.
    """

    at: datetime
    seq: int
    step: str
    name: str | None
    attempt: int
    outcome: str
    key: str | None
    seconds: float | None
    cost: Cost = field(default_factory=dict)


def begin(db: Database, claim: Claim, *, name: str, key: UUID, digest: str, tries: int) -> Begun | None:
    """Write down that a call is about to be made, or find it. None: the lease was lost, and nothing was written.

    tries: how often this attempt has called it, this time included. Repeating it is safe.
    """
    row = db.one(sql.BEGIN, _fence(claim) | {"name": name, "key": key, "digest": digest, "tries": tries})
    if row is None:
        return None
    return Begun(name=name, key=key, digest=row.digest, attempts=row.attempts, result=row.result)


def finish(db: Database, claim: Claim, begun: Begun, *, result: str, cost: Cost, took: float) -> bool:
    """Keep the result. False: the lease was lost, and nothing was written. took: seconds. Repeating it is safe."""
    params = {
        "name": begun.name,
        "key": begun.key,
        "digest": begun.digest,
        "attempts": begun.attempts,
        "result": result,
        "cost": codec.encode_or_none(cost or None),
        "took": took,
    }
    return db.one(sql.FINISH, _fence(claim) | params) is not None


def record_late(db: Database, claim: Claim, begun: Begun, *, result: str, cost: Cost) -> None:
    """Keep what a call returned that came after its lease was lost: an operator may need the receipt in it."""
    fits = len(result.encode()) <= LATE_BYTES
    error = {
        "message": f"the call {begun.name!r} came back after its attempt had been taken away",
        "call": begun.name,
        "key": str(begun.key),
        "result": codec.decode(result)[0] if fits else "too large to be kept",
    }
    params = {
        "seq": claim.delivery.seq,
        "ran": claim.step,
        "attempt": claim.attempt,
        "owner": claim.claimant.owner,
        "error": codec.encode(error),
        "cost": codec.encode_or_none(cost or None),
    }
    db.run(sql.RECORD_LATE, _fence(claim) | params)


def beat(db: Database, claim: Claim, detail: str | None) -> bool:
    """Say that the step goes on; detail: JSON, None to keep the last one. False: the lease was lost."""
    return db.one(sql.HEARTBEAT, _fence(claim) | {"detail": detail}) is not None


def recorded(db: Database, case: Case, *, since: int = 0, until: int = MOST) -> list[RecordedCall]:
    """All that the case has called outside, the oldest first, by steps that begin at seq `since` and before `until`."""
    return [_recorded(case, row) for row in db.all(sql.RECORDED, {"id": case.id, "since": since, "until": until})]


def total(calls: Iterable[RecordedCall]) -> Cost:
    """What they cost together, by unit."""
    spent = Cost()
    for one in calls:
        for name, number in one.cost.items():
            spent[name] = spent.get(name, 0) + number
    return spent


def _fence(claim: Claim) -> dict[str, Any]:
    return {"id": claim.delivery.case, "lease": claim.lease}


def _recorded(case: Case, row: Row) -> RecordedCall:
    late = codec.decode(row.late) if row.late else {}
    name, key = row.name or late.get("call"), row.key or late.get("key")
    if key is None and row.renewed:
        key = idempotency_key(case.run, row.seq, row.step)
    return RecordedCall(
        at=row.at,
        seq=row.seq,
        step=row.step,
        name=name,
        attempt=row.attempt,
        outcome=row.outcome,
        key=None if key is None else str(key),
        seconds=row.seconds,
        cost=codec.decode(row.cost) if row.cost else {},
    )
