"""The logs of stored states: what changed in them, and what another case needs to have them, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import delta
from keepstep.checkpoint.blobs import fetching
from keepstep.checkpoint.delta import Operation
from keepstep.checkpoint.sql import blobs as sql
from keepstep.steps.chunks import CHUNK, Fetch, Parts, expanded, is_stored, items, parts_of, reachable, shared
from keepstep.steps.errors import LogDamaged, StateTooLarge
from keepstep.steps.flaws import pointer
from keepstep.steps.state import JSON


def diff(before: JSON, after: JSON, fetch: Fetch) -> list[Operation]:
    """As `delta.diff`, with lists for the logs. Chunks that both have aren't read. Raises LogDamaged."""
    logs = [name for name in before.keys() & after.keys() if _are_logs(before[name], after[name])]
    old, new = ({name: state[name] for name in state if name not in logs} for state in (before, after))
    operations = delta.diff(expanded(old, fetch), expanded(new, fetch))
    for name in sorted(logs):
        operations += _diff(parts_of(before[name]), parts_of(after[name]), pointer(name), fetch)
    return operations


def copy(connection: sa.Connection, state: JSON, source: UUID, case: UUID) -> None:
    """Give `case`, which is new, what the logs of a state of `source` are stored in. Raises LogDamaged."""
    fetch = fetching(connection.execute, source)
    logs = [parts_of(value) for value in state.values() if is_stored(value)]
    digests = {digest for parts in logs for digest in reachable(parts.refs, fetch)}
    if digests:
        copied = connection.execute(sql.COPY, {"id": case, "source": source, "digests": list(digests)}).rowcount
        if copied != len(digests):
            raise LogDamaged(f"{len(digests) - copied} parts of a log are missing")


def refuse_large_items(blobs: Mapping[str, str], max_bytes: int) -> None:
    """Raise StateTooLarge if a chunk is too large, as it is only for the sake of a single item."""
    size, most = max((len(text.encode()) for text in blobs.values()), default=0), max(max_bytes, CHUNK)
    if size > most:
        raise StateTooLarge(
            f"an item of a log has {size:,} bytes, the most is {most:,} (KEEPSTEP_MAX_STATE_BYTES): keep it elsewhere, "
            "and append a reference"
        )


def found_in(blobs: Mapping[str, str], fetch: Fetch) -> Fetch:
    """Reads what was to be stored, too."""

    def found(digests: Collection[str]) -> Mapping[str, str]:
        return {**fetch(digests), **{digest: blobs[digest] for digest in digests if digest in blobs}}

    return found


def _are_logs(a: Any, b: Any) -> bool:
    return (is_stored(a) and (is_stored(b) or isinstance(b, list))) or (isinstance(a, list) and is_stored(b))


def _diff(before: Parts, after: Parts, path: str, fetch: Fetch) -> list[Operation]:
    at = shared(before.refs, after.refs, fetch)
    old, new = items(before, fetch, at), items(after, fetch, at)
    if not delta.diff(old, new[: len(old)]):
        return [{"op": "add", "path": f"{path}/-", "value": item} for item in new[len(old) :]]
    if not delta.diff(old[: len(new)], new):  # after a rewind, say
        return [{"op": "remove", "path": f"{path}/{at + n}"} for n in reversed(range(len(new), len(old)))]
    return [{"op": "replace", "path": path, "value": items(after, fetch)}]
