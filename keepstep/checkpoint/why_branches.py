"""What a case waits for when it waits for branches, in words. Pure, as why.py is."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from keepstep.checkpoint.fan_reads import BranchView, FanView
from keepstep.checkpoint.nodes import NodeView
from keepstep.steps.words import one_line

SHOWN = 5
"""Held branches that are named."""


def waits_for(fan: FanView, nodes: Sequence[NodeView] = ()) -> str:
    """A sentence about where the branches stand. nodes: the live ones."""
    over = sum(fan.counts.get(status, 0) for status in ("completed", "failed", "cancelled")) + fan.refused
    left = fan.total - over
    parts = [f"{count} {status}" for status, count in sorted(fan.counts.items()) if _lives(status)]
    if fan.total > fan.made:
        parts.append(f"{fan.total - fan.made} to begin, of which {fan.max_running} at a time")
    what = ", ".join(fan.names[:SHOWN])
    known = {name: max((node.workflows.get(name, 0) for node in nodes), default=0) for name in fan.newest}
    newer = [name for name in sorted(known) if 0 < known[name] < fan.newest[name]]
    if not left and newer:
        name = newer[0]
        return (
            f"All of its {fan.total} branches ({what}) have ended. A result of {name} is of version "
            f"{fan.newest[name]}, and the live workers know version {known[name]}: it waits for newer code."
        )
    if not left:
        return f"All of its {fan.total} branches ({what}) have ended, and it is about to go on."
    stand = f": {', '.join(parts)}" if parts else ""
    return f"It waits for {left} of its {fan.total} branches ({what}){stand}."


def held(branches: Sequence[BranchView]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines that say why branches are held, and the commands that let them go on."""
    lines, commands = [], []
    for branch in branches[:SHOWN]:
        error = branch.error or {}
        why = ": ".join(str(error[name]) for name in ("why", "type", "message") if error.get(name))
        lines.append(f"{branch.thread_id} is held: {one_line(why)}")
        commands.append(shlex.join(["keepstep", "retry", branch.workflow or "", branch.thread_id or ""]))
    return tuple(lines), tuple(commands)


def told(fan: FanView) -> str:
    """What became of a fan-out, for the history."""
    parts = [f"{count} {status}" for status, count in sorted(fan.counts.items())]
    if fan.refused:
        parts.append(f"{fan.refused} refused")
    if fan.total > fan.made:
        parts.append(f"{fan.total - fan.made} {'to begin' if fan.fate is None else 'not begun'}")
    return f"{fan.total} branch{'' if fan.total == 1 else 'es'}: {', '.join(parts)}; {fan.fate or 'waited for'}"


def _lives(status: str) -> bool:
    return status not in ("completed", "failed", "cancelled")
