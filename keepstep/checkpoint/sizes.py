"""Is there room for a payload in its case's state? The next step could never write one that is too large."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import sqlalchemy as sa

from keepstep.checkpoint import codec
from keepstep.checkpoint.blobs import state_of
from keepstep.checkpoint.sql import reads


def too_large(
    connection: sa.Connection, case: UUID, seq: int, field: str | None, payload: Any, max_bytes: int | None
) -> str | None:
    """Why the state could not be kept with this payload in the field; None if it could. max_bytes: None is no limit."""
    if field is None or max_bytes is None:
        return None
    at = {"id": case, "seq": seq}
    stored = connection.execute(reads.CHAIN_BYTES, at).scalar_one() or 0  # a chain outweighs the state that it makes
    if stored + len(codec.encode({field: payload}).encode()) <= max_bytes:
        return None
    chain = connection.execute(reads.CHAIN, at).one().chain
    state = state_of(connection.execute, case, chain, seq)
    size = len(codec.encode({**state, field: payload}).encode())
    if size <= max_bytes:
        return None
    return f"with it the state would have {size:,} bytes, the most is {max_bytes:,}: send a reference to it"
