"""A snapshot and the deltas after it: how a state is written small and read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from keepstep.checkpoint import codec
from keepstep.checkpoint.delta import DELTA_OVERHEAD, apply, diff
from keepstep.checkpoint.parked import LARGE, park
from keepstep.steps.errors import CheckpointDamaged, StateTooLarge
from keepstep.steps.flaws import pointer
from keepstep.steps.state import JSON
from keepstep.steps.value import value

LIGHT = 16 * 1024
"""Bytes that a chain may always weigh: reading twenty small deltas costs less than a snapshot at each second step."""


@value
class Link:
    """What a new checkpoint stores.

    weight: by how much loading the chain is more than loading the state alone would be, in bytes; 0 on a snapshot.
    blobs: the large values that the payload names by their digest.
    """

    payload: str
    is_snapshot: bool
    weight: int
    blobs: Mapping[str, str] = field(default_factory=dict)


def link(
    before: JSON,
    after: JSON,
    weight: int,
    *,
    max_bytes: int,
    snapshot: bool = False,
    text: str | None = None,
    shrinks: int | None = None,
    large: int = LARGE,
) -> Link:
    """Choose between a delta and a snapshot: a snapshot when reading the chain would cost twice what the state does.

    weight: of the chain so far. max_bytes: a larger state is refused with StateTooLarge, before anything is written.
    A delta weighs its bytes and DELTA_OVERHEAD, less what it made the state grow by: what is appended must be read
    anyway, what is replaced or taken away is still in the snapshot. So a load reads at most about twice the state, or
    LIGHT more of a small one, and writes stay proportional to the change. text: of `after`, and shrinks: by how many
    bytes it is shorter than `before`, where the caller knows that. large: bytes from which on a value is stored apart;
    it counts as if it were not.
    """
    whole = codec.encode(after) if text is None else text
    size = len(whole.encode())
    if size > max_bytes:
        raise StateTooLarge(
            f"the state has {size:,} bytes, the most is {max_bytes:,} (KEEPSTEP_MAX_STATE_BYTES): keep large values "
            f"elsewhere and references to them in the state. {_largest(after)}"
        )
    if snapshot:
        return _link(whole, after, 0, large, is_snapshot=True)
    operations = diff(before, after)
    change = codec.encode(operations)
    shrinks = len(codec.encode(before).encode()) - size if shrinks is None else shrinks
    weight = max(0, weight + len(change.encode()) + DELTA_OVERHEAD + shrinks)
    if weight > max(size, LIGHT):
        return _link(whole, after, 0, large, is_snapshot=True)
    return _link(change, operations, weight, large, is_snapshot=False)


def _link(payload: str, value: Any, weight: int, large: int, *, is_snapshot: bool) -> Link:
    payload, blobs = park(payload, value, large)
    return Link(payload=payload, is_snapshot=is_snapshot, weight=weight, blobs=blobs)


def assemble(links: list[list[Any]], seq: int) -> JSON:
    """Put a state together from [seq, is snapshot, payload] rows in order; CheckpointDamaged if the chain has a gap."""
    if not links:
        raise CheckpointDamaged(f"no checkpoint leads to seq {seq}: the snapshot is missing")
    first, is_snapshot, state = links[0]
    if not is_snapshot or not isinstance(state, dict):
        raise CheckpointDamaged(f"the chain to seq {seq} begins at {first} without a snapshot")
    for expected, (at, _, change) in enumerate(links[1:], first + 1):
        if at != expected:
            raise CheckpointDamaged(f"the chain to seq {seq} has a gap: checkpoint {expected} is missing")
        try:
            state = apply(state, change)
        except CheckpointDamaged as error:
            raise CheckpointDamaged(f"checkpoint {at}: {error}", path=error.path) from None
    if links[-1][0] != seq:
        raise CheckpointDamaged(f"the chain to seq {seq} ends at {links[-1][0]}: checkpoint {seq} is missing")
    if not isinstance(state, dict):
        raise CheckpointDamaged(f"the chain to seq {seq} leads to a {type(state).__name__}, not to an object")
    return state


def _largest(state: JSON) -> str:
    sizes = {name: len(codec.encode(value).encode()) for name, value in state.items()}
    name = max(sizes, key=lambda n: sizes[n], default=None)
    return "" if name is None else f"The largest field is {pointer(name)} with {sizes[name]:,} bytes."
