"""A fan-out between its decision and its rows."""

from __future__ import annotations

from typing import Any

from keepstep.checkpoint import codec
from keepstep.checkpoint.targets import as_json
from keepstep.steps.errors import StateTooLarge
from keepstep.steps.fans import Fan, Kind

LOOK_SECONDS = 5.0
"""When the sweep looks at a fan-out first, in case that whoever began it has died before its branches began."""

MOST_RUNNING = 1000
"""Branches that may be unfinished at a time where the step doesn't say: more would only lie in the queues."""


def fan_columns(fan: Fan) -> dict[str, Any]:
    """The fan-out and its list as the statement takes them: an array for each column, with JSON as text."""
    return {
        "shape": fan.shape,
        "into_field": fan.into,
        "then_target": codec.encode_or_none(as_json(fan.then)),
        "on_error": fan.on_error,
        "max_running": min(fan.max_running or MOST_RUNNING, len(fan.branches)),
        "total": len(fan.branches),
        "kinds": codec.encode([_kind(kind) for kind in fan.kinds]),
        "branch_kinds": [branch.kind for branch in fan.branches],
        "branch_names": [branch.name for branch in fan.branches],
        "thread_ids": [branch.thread_id for branch in fan.branches],
        "payloads": [codec.encode(branch.state) for branch in fan.branches],
        "inputs": [codec.encode_or_none(branch.sent) for branch in fan.branches],
    }


def refuse_large(fan: Fan, max_bytes: int) -> None:
    """Raise StateTooLarge for a branch whose first state could not be written."""
    for number, branch in enumerate(fan.branches):
        size = len(codec.encode(branch.state).encode())
        if size > max_bytes:
            which = number if branch.name is None else branch.name
            raise StateTooLarge(
                f"the state of branch {which!r} would have {size:,} bytes, the most is {max_bytes:,} "
                "(KEEPSTEP_MAX_STATE_BYTES): give it a reference instead"
            )


def _kind(kind: Kind) -> dict[str, Any]:
    """As JSON. pinned: whether its cases run on the queue that the parent is pinned to."""
    return {
        **(as_json(kind.target) or {}),
        "name": kind.name,
        "workflow": kind.workflow,
        "schema_version": kind.schema_version,
        "hooks": list(kind.hooks) or None,
        "secrets": list(kind.secrets) or None,
        "child": kind.is_child,
        "pinned": not kind.is_child,
    }
