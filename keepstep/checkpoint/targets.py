"""A step to go on with, as it is kept with a wait or a fan-out: the node that goes on may not have the step's code."""

from __future__ import annotations

from typing import Any

from keepstep.checkpoint import codec
from keepstep.steps.step import Target


def as_json(target: Target | None) -> dict[str, Any] | None:
    """A target as JSON."""
    if target is None:
        return None
    return {
        "step": target.step,
        "queue": target.queue,
        "timeout": target.timeout,
        "in_doubt": target.in_doubt,
        "heartbeat_timeout": target.heartbeat_timeout,
    }


def decode_target(text: str | None) -> Target | None:
    """The target of stored JSON."""
    if text is None:
        return None
    stored = codec.decode(text)  # a newer release may have put more into it
    return Target(
        step=stored["step"],
        queue=stored["queue"],
        timeout=stored["timeout"],
        in_doubt=stored["in_doubt"],
        heartbeat_timeout=stored.get("heartbeat_timeout"),
    )
