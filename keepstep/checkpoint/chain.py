"""A snapshot and the deltas after it: how a state is written small and read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from keepstep.checkpoint import codec
from keepstep.checkpoint.delta import DELTA_OVERHEAD, apply, diff
from keepstep.steps.errors import CheckpointDamaged, StateTooLarge
from keepstep.steps.state import JSON, pointer


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a new checkpoint stores.

    weight: of all deltas since the last snapshot, in bytes, with what they took away; 0 on a snapshot.
    """

    payload: str
    is_snapshot: bool
    weight: int


def link(
    before: JSON,
    after: JSON,
    weight: int,
    *,
    max_bytes: int,
    snapshot: bool = False,
    text: str | None = None,
    shrinks: int | None = None,
) -> Link:
    """Choose between a delta and a snapshot: a snapshot when the deltas since the last one would outweigh it.

    weight: of the deltas so far. max_bytes: a larger state is refused with StateTooLarge, before anything is written.
    What a delta takes away weighs too, because the snapshot still holds it. So a load reads at most about twice the
    state, and writes stay proportional to the change. text: of `after`, and shrinks: by how many bytes it is shorter
    than `before`, where the caller knows that.
    """
    whole = codec.encode(after) if text is None else text
    size = len(whole.encode())
    if size > max_bytes:
        raise StateTooLarge(
            f"the state has {size:,} bytes, the most is {max_bytes:,} (KEEPSTEP_MAX_STATE_BYTES): keep large values "
            f"elsewhere and references to them in the state. {_largest(after)}"
        )
    change = "" if snapshot else codec.encode(diff(before, after))
    weight += len(change.encode()) + DELTA_OVERHEAD
    if not snapshot and weight <= size:
        weight += max(0, len(codec.encode(before).encode()) - size if shrinks is None else shrinks)
    if snapshot or weight > size:
        return Link(payload=whole, is_snapshot=True, weight=0)
    return Link(payload=change, is_snapshot=False, weight=weight)


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
        state = apply(state, change)
    if links[-1][0] != seq:
        raise CheckpointDamaged(f"the chain to seq {seq} ends at {links[-1][0]}: checkpoint {seq} is missing")
    if not isinstance(state, dict):
        raise CheckpointDamaged(f"the chain to seq {seq} leads to a {type(state).__name__}, not to an object")
    return state


def _largest(state: JSON) -> str:
    sizes = {name: len(codec.encode(value).encode()) for name, value in state.items()}
    name = max(sizes, key=lambda n: sizes[n], default=None)
    return "" if name is None else f"The largest field is {pointer(name)} with {sizes[name]:,} bytes."
