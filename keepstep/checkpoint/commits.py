"""Commit: carry out a decision by one statement, fenced by the lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import Keeping, keep
from keepstep.checkpoint.chain import Link, link
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database, Row
from keepstep.checkpoint.fans import LOOK_SECONDS, fan_columns, refuse_large
from keepstep.checkpoint.late import cost_of
from keepstep.checkpoint.late import record_late as record_late
from keepstep.checkpoint.logs import refuse_large_items
from keepstep.checkpoint.parked import LARGE
from keepstep.checkpoint.ring import Delivery, Ring
from keepstep.checkpoint.sql import batch, branches, hot
from keepstep.checkpoint.targets import as_json
from keepstep.steps.decide import Decision
from keepstep.steps.step import Target
from keepstep.steps.value import value
from keepstep.steps.waits import Wait

_OUTCOMES = {"back_off": "raised", "hold": "held", "defer": "deferred", "fail": "failed", "doubt": "in_doubt"}


@value
class Committed:
    """A decision that was carried out.

    ring: the message to send now, if the next step is to run at once. next: the next step's claim, if it was taken.
    """

    ring: Ring | None = None
    next: Claim | None = None


def weigh(
    claim: Claim, decision: Decision, *, max_state_bytes: int, snapshot: bool = False, large: int = LARGE
) -> Link | None:
    """What the checkpoint will store, None if it writes none; StateTooLarge before anything is written."""
    if decision.state is None or claim.state is None:
        return None
    if decision.fan is not None:
        refuse_large(decision.fan, max_state_bytes)
    refuse_large_items(decision.blobs, max_state_bytes)
    stored = link(
        claim.state,
        decision.state,
        claim.weight,
        max_bytes=max_state_bytes,
        snapshot=snapshot,
        text=decision.text,
        shrinks=decision.shrinks,
        large=large,
    )
    return replace(stored, blobs={**stored.blobs, **decision.blobs}) if decision.blobs else stored


class Runs(Protocol):
    """What runs a statement: the database, or a transaction that the step's own statements are in."""

    def one(self, statement: sa.TextClause, params: Mapping[str, Any]) -> Row | None:
        """Run it; its first row."""


def commit(
    db: Runs,
    claim: Claim,
    decision: Decision,
    stored: Link | None,
    *,
    version: int,
    took: float,
    onward: UUID | None = None,
) -> Committed | None:
    """Write the checkpoint and advance the head, or end the attempt otherwise. None: the lease was lost.

    stored: what `weigh` said. version: the state's schema version. took: seconds since the claim. onward: a lease for
    the next step, to be taken in the same statement. Repeating it is safe: a commit whose reply was lost is recognised
    by its lease.
    """
    fence = {"id": claim.delivery.case, "lease": claim.lease}
    if stored is None:
        params = fence | _set_aside(claim, decision) | {"took": took}
        row = db.one(hot.FAIL if decision.move == "fail" else hot.SET_ASIDE, params)
        if row is None and db.one(hot.ENDED, params | {"seq": claim.delivery.seq}) is None:
            return None
        return Committed()
    params = fence | _checkpoint(claim, decision, stored, version, took)
    if isinstance(db, Database):
        db = Keeping(db, [(claim.delivery.case, stored.blobs, claim.parked)])
    else:  # in a transaction as it is
        keep(db.one, claim.delivery.case, stored.blobs, claim.parked)
    if onward is not None and decision.move == "advance":
        return _commit_and_claim(db, claim, decision, stored, version, onward, params)
    if decision.move == "complete":
        row = db.one(hot.COMPLETE, params)
    elif decision.waits:
        soonest = min(
            (s for wait in decision.waits for s in (wait.timeout, wait.remind_every) if s is not None), default=None
        )
        row = db.one(hot.COMMIT_WAIT, params | _target(decision.target, soonest, None) | _waits(decision.waits))
    elif decision.fan is not None:
        row = db.one(branches.COMMIT_FAN, params | _target(None, LOOK_SECONDS, None) | fan_columns(decision.fan))
    else:
        row = db.one(hot.COMMIT, params | _target(decision.target, decision.delay, decision.until))
    return landed(db, claim, decision) if row is None else _committed(claim, decision, row)


class Kept(NamedTuple):
    """A decision to go on or to complete, kept to be committed with others. took: seconds since the claim.

    onward: a lease for the next step, to be taken in the same statement.
    """

    claim: Claim
    decision: Decision
    stored: Link
    version: int
    took: float
    onward: UUID | None = None


def commit_many(db: Database, kept: Sequence[Kept]) -> dict[UUID, Committed]:
    """Write the checkpoints and advance the heads in one statement, with one flush. By case; the others had no lease.

    A reply that was lost is recognised by the next step's lease, if there is one; else `commit` of each case that isn't
    in the result tells.
    """
    rows = [
        {"id": k.claim.delivery.case, "lease": k.claim.lease, "next_lease": k.onward}
        | _checkpoint(k.claim, k.decision, k.stored, k.version, k.took)
        | _target(k.decision.target, None, None)
        for k in kept
    ]
    params = {
        name: codec.uuids(row[name] for row in rows) if kind == "uuid[]" else [row[name] for row in rows]
        for name, kind in batch.TYPES.items()
    }
    keeping = Keeping(db, ((k.claim.delivery.case, k.stored.blobs, k.claim.parked) for k in kept))
    found = {row.id: row for row in keeping.all(batch.COMMIT_MANY, params)}
    done = {k.claim.delivery.case: _one_of_many(db, k, found.get(k.claim.delivery.case)) for k in kept}
    return {case: committed for case, committed in done.items() if committed is not None}


def _one_of_many(db: Database, kept: Kept, row: Row | None) -> Committed | None:
    claim, decision, stored, version, _, onward = kept
    if onward is None:
        return None if row is None else _committed(claim, decision, row)
    if row is None:
        row = db.one(hot.WENT_ON, {"id": claim.delivery.case, "next_lease": onward})
    elif row.lease is None:  # paused meanwhile
        return Committed()
    return None if row is None else Committed(next=_next(claim, decision, stored, version, onward, row))


def _commit_and_claim(
    db: Runs, claim: Claim, decision: Decision, stored: Link, version: int, lease: UUID, params: dict[str, Any]
) -> Committed | None:
    """Write the checkpoint, and take the next step's lease with it; a case that is paused meanwhile stops there."""
    params = params | _target(decision.target, None, None) | {"next_lease": lease}
    row = db.one(hot.ONWARD, params)
    if row is not None and row.paused:
        return Committed()
    row = row or db.one(hot.WENT_ON, params)  # the reply was lost: the next lease is ours, also if it is paused by now
    if row is None:
        return landed(db, claim, decision)
    return Committed(next=_next(claim, decision, stored, version, lease, row))


def _next(claim: Claim, decision: Decision, stored: Link, version: int, lease: UUID, row: Row) -> Claim:
    assert decision.target is not None
    return replace(
        claim,
        delivery=Delivery(case=claim.delivery.case, seq=row.seq),
        lease=lease,
        step=decision.target.step,
        queue=row.queue,
        timeout=decision.target.timeout,
        in_doubt=decision.target.in_doubt,
        attempt=1,
        failures=0,
        deferrals=0,
        verifications=0,
        doubt=None,
        detail=None,
        schema_version=version,
        weight=stored.weight,
        deadline=row.deadline,
        elapsed=0.0,
        state=decision.state,
        text=decision.text,
        parked=claim.parked | stored.blobs.keys(),
        snapshot_seq=row.seq if stored.is_snapshot else claim.snapshot_seq,
    )


def landed(db: Runs, claim: Claim, decision: Decision) -> Committed | None:
    """Whether the checkpoint of this very attempt is there: it was written, and only the reply was lost."""
    row = db.one(hot.LANDED, {"id": claim.delivery.case, "seq": claim.delivery.seq, "lease": claim.lease})
    return None if row is None else _committed(claim, decision, row)


def _committed(claim: Claim, decision: Decision, row: Row) -> Committed:
    return Committed(ring=None if row.paused else _ring(claim, decision, row))


def _checkpoint(claim: Claim, decision: Decision, stored: Link, version: int, took: float) -> dict[str, Any]:
    return {
        "kind": decision.kind or ("step" if claim.doubt is None else "verify"),
        "ran": claim.step,
        "status": str(decision.status),
        "target": decision.target and decision.target.step,
        "attempt": claim.attempt,
        "owner": claim.claimant.owner,
        "schema_version": version,
        "is_snapshot": stored.is_snapshot,
        "payload": stored.payload,
        "weight": stored.weight,
        "key_read": decision.key_read,
        "cost": cost_of(decision),
        "took": took,
    }


def _target(target: Target | None, delay: float | None, until: datetime | None) -> dict[str, Any]:
    return {
        "queue": target and target.queue,
        "timeout": target and target.timeout,
        "in_doubt": target and target.in_doubt,
        "heartbeat_timeout": target and target.heartbeat_timeout,
        "delay": delay,
        "until": until,
    }


def _waits(waits: tuple[Wait, ...]) -> dict[str, Any]:
    """The waits as arrays, one for each column, with JSON as text."""
    return {
        "names": [wait.name for wait in waits],
        "into_fields": [wait.into for wait in waits],
        "then_targets": [codec.encode_or_none(as_json(wait.then)) for wait in waits],
        "payload_schemas": [codec.encode_or_none(wait.schema) for wait in waits],
        "prompts": [codec.encode_or_none(wait.prompt) for wait in waits],
        "timeouts": [wait.timeout for wait in waits],
        "on_timeouts": [codec.encode_or_none(as_json(wait.on_timeout)) for wait in waits],
        "default_payloads": [None if wait.default is None else f"[{wait.default}]" for wait in waits],
        "need_alls": [wait.need_all for wait in waits],
        "streams": [wait.stream for wait in waits],
        "approvers": [wait.approvers for wait in waits],
        "digests": [wait.digest for wait in waits],
        "reminders": [wait.remind_every for wait in waits],
    }


def _set_aside(claim: Claim, decision: Decision) -> dict[str, Any]:
    return {
        "status": str(decision.status),
        "failed": int(decision.move in ("back_off", "doubt") and decision.doubt not in ("verify", "clear")),
        "deferred": int(decision.move == "defer"),
        "delay": decision.delay,
        "error": codec.encode(decision.error),
        "doubt": decision.doubt,
        "cost": cost_of(decision),
        "outcome": "not_done" if decision.doubt == "clear" else _OUTCOMES[decision.move],
        "owner": claim.claimant.owner,
    }


def _ring(claim: Claim, decision: Decision, row: Row) -> Ring | None:
    """The message for the next step, on the queue and with the priority that the head has."""
    target = decision.target
    if decision.move != "advance" or target is None or row.queue is None:
        return None
    return Ring.to(
        target if target.queue == row.queue else replace(target, queue=row.queue),
        case=claim.delivery.case,
        seq=claim.delivery.seq + 1,
        workflow=claim.workflow,
        thread_id=claim.thread_id,
        priority=row.priority,
    )
