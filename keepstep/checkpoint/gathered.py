"""What the branches of a case came to, as its state takes it.

Whoever asked is answered in the version that it asked in: results of that version go into the state as it is stored,
and whoever loads that upcasts both. A result of a newer version can't go there: then the state is upcast first, and
each result, by code that knows all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import Rows, fetching, state_of
from keepstep.checkpoint.chain import Link, assemble, link
from keepstep.checkpoint.database import Row
from keepstep.checkpoint.delta import DELTA_OVERHEAD
from keepstep.checkpoint.parked import park, resolve
from keepstep.checkpoint.payloads import Payloads
from keepstep.checkpoint.sizes import too_large
from keepstep.checkpoint.sql import branches as sql
from keepstep.checkpoint.sql import reads
from keepstep.steps import state as states
from keepstep.steps.chunks import MARK, expanded, is_stored
from keepstep.steps.errors import BadState
from keepstep.steps.results import collected

NO_LIMIT = 2**63


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What the join's checkpoint stores. version: of the state after it."""

    stored: Link
    version: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of one branch: a result, or an error. version: of the result, and asked: of who asked for it."""

    which: str | int
    kind: dict[str, Any]
    result: Any
    error: dict[str, Any] | None
    version: int

    @property
    def asked(self) -> int:
        version: int = self.kind["schema_version"]
        return version


def taken(connection: sa.Connection, head: Row, fan: Row, code: Payloads, max_bytes: int | None) -> Taken | None:
    """The results in the field that was named for them. None: only newer code can tell.

    Raises BadState and CheckpointDamaged if it can't be done.
    """
    field = fan.into_field
    if field is None:
        return Taken(stored=Link(payload="[]", is_snapshot=False, weight=DELTA_OVERHEAD), version=head.schema_version)
    kinds = codec.decode(fan.kinds)
    rows = connection.execute(sql.GATHER, {"id": head.id, "seq": fan.seq})
    outcomes = [outcome(row, kinds, fan.shape, connection.execute) for row in rows]
    present = code.version(head.workflow)
    if any(one.version > one.asked for one in outcomes):
        known = [code.version(one.kind["workflow"]) or one.version for one in outcomes]
        older = any(mine < one.version for mine, one in zip(known, outcomes, strict=True))
        if present is None or present < head.schema_version or older:
            return None
        if present > head.schema_version:
            state = _with(connection, head, code, field, together(fan.shape, fan.on_error, outcomes, code))
            stored = link({}, state, 0, max_bytes=NO_LIMIT if max_bytes is None else max_bytes, snapshot=True)
            return Taken(stored=stored, version=present)
    results = together(fan.shape, fan.on_error, outcomes, code if present == head.schema_version else None)
    if is_stored(results):
        raise BadState(f"{MARK!r} is keepstep's own", path=states.pointer(field))
    at_head = partial(_state, connection, head), fetching(connection.execute, head.id)
    reason = code.fits(head.workflow, field, results, head.schema_version, *at_head) or too_large(
        connection, head.id, head.seq, field, results, max_bytes
    )
    if reason is not None:
        raise BadState(f"{reason}{_versions(head, outcomes, present)}", path=states.pointer(field))
    operations = [{"op": "add", "path": states.pointer(field), "value": results}]
    whole = codec.encode(operations)
    delta, blobs = park(whole, operations)
    weight = len(whole.encode()) + DELTA_OVERHEAD
    return Taken(stored=Link(payload=delta, is_snapshot=False, weight=weight, blobs=blobs), version=head.schema_version)


def error_of(row: Row) -> dict[str, Any]:
    """Why a branch has no result."""
    stored = codec.decode(row.refused or row.error or "{}") or {}
    status = row.status or "failed"
    plain = {"type": "Cancelled", "message": "an operator cancelled it"} if status == "cancelled" else {}
    named = {"status": status, "workflow": row.workflow or "", "thread_id": row.thread_id or ""}
    return {"type": "error", "message": "", **plain, **named, **stored}


def outcome(row: Row, kinds: Sequence[dict[str, Any]], shape: str, rows: Rows) -> Outcome:
    """What the branch of this row came to."""
    kind, error = kinds[row.kind], None if row.status == "completed" else error_of(row)
    return Outcome(
        which=row.name if shape == "dict" else row.number,
        kind=kind,
        result=_result(row, rows, whole=kind["child"]) if error is None else None,
        error=error,
        version=kind["schema_version"] if error is not None else row.schema_version,
    )


def _result(row: Row, rows: Rows, *, whole: bool) -> Any:
    fetch = fetching(rows, row.id)
    links = resolve(row.chain, fetch)
    state = assemble(links, links[-1][0])
    return expanded(state, fetch) if whole else state.get("result")


def together(shape: str, on_error: str, outcomes: Iterable[Outcome], code: Payloads | None) -> Any:
    """In the order of the list, by name, or the only one; errors beside them where they are collected.

    code: by which each is upcast; None leaves them as they are, and so is what a workflow that isn't loaded came to.
    Raises UpcastFailed.
    """
    found = {}
    for one in outcomes:
        result = one.result
        if code is not None and one.error is None and (code.version(one.kind["workflow"]) or 0) >= one.version:
            result = code.upcast_result(one.kind["workflow"], one.kind["step"], result, one.version)
        found[one.which] = result if on_error == "fail" else collected(result, one.error and _told(one.error))
    if shape == "dict":
        return found
    return list(found.values()) if shape == "list" else found[0]


def _with(connection: sa.Connection, head: Row, code: Payloads, field: str, results: Any) -> states.JSON:
    """The whole state as this code has it, with the results."""
    stored = _state(connection, head)
    fetch = fetching(connection.execute, head.id)
    return dict(code.with_field(head.workflow, head.step, stored, head.schema_version, field, results, fetch))


def _state(connection: sa.Connection, head: Row) -> states.JSON:
    chain = connection.execute(reads.CHAIN, {"id": head.id, "seq": head.seq}).one().chain
    return state_of(connection.execute, head.id, chain, head.seq)


def _versions(head: Row, outcomes: list[Outcome], present: int | None) -> str:
    """Of what, where they aren't all this code's."""
    found = sorted({one.version for one in outcomes if one.error is None})
    if not found or (found == [present] and head.schema_version == present):
        return ""
    return f" (results of version {', '.join(map(str, found))}; the state's is {head.schema_version})"


def _told(error: dict[str, Any]) -> dict[str, Any]:
    return {name: error[name] for name in ("type", "message", "status", "workflow", "thread_id")}
