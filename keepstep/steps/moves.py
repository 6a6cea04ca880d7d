"""The table of legal moves: every way in which a case's status changes.

The guards in the SQL statements, the CHECK constraints, the diagram in ARCHITECTURE.md and the tests are made from
this table, so there is one place to look and one place to change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where a case stands."""

    QUEUED = "queued"  # a worker should take its next step
    RUNNING = "running"  # a worker holds the lease of its next step
    SLEEPING = "sleeping"  # a timer or a back-off runs
    WAITING = "waiting"  # for a signal (a person, a message), or for its branches
    HELD = "held"  # parked for an operator, with the reason
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
LIVE = frozenset(Status) - TERMINAL


@dataclass(frozen=True, kw_only=True)
class Move:
    """One legal move.

    name: what the code and the docs call it. sources, targets: statuses before and after; no source is a birth.
    fenced: guarded by the lease, because a worker says it about its own attempt. checkpoint: it writes one, unless
    the case has failed. steering: an operator says it, and the audit table says who and why.
    """

    name: str
    sources: frozenset[Status]
    targets: frozenset[Status]
    fenced: bool = False
    checkpoint: bool = False
    steering: bool = False


def _move(name: str, sources: str, targets: str, **flags: bool) -> Move:
    return Move(
        name=name,
        sources=frozenset(Status(s) for s in sources.split()),
        targets=frozenset(Status(s) for s in targets.split()),
        **flags,
    )


_LIVE, _ANY = " ".join(sorted(LIVE)), " ".join(Status)

MOVES: dict[str, Move] = {
    move.name: move
    for move in (
        # name        from         to
        _move("start", "", "queued sleeping", checkpoint=True),
        _move("claim", "queued", "running"),
        # what a worker says of its own attempt, fenced by the lease
        _move("advance", "running", "queued", fenced=True, checkpoint=True),
        _move("sleep", "running", "sleeping", fenced=True, checkpoint=True),
        _move("wait", "running", "waiting", fenced=True, checkpoint=True),
        _move("fan_out", "running", "waiting", fenced=True, checkpoint=True),
        _move("complete", "running", "completed", fenced=True, checkpoint=True),
        _move("fail", "running", "failed", fenced=True),
        _move("hold", "running", "held", fenced=True),
        _move("back_off", "running", "sleeping", fenced=True),
        _move("defer", "running", "sleeping", fenced=True),
        _move("doubt", "running", "sleeping", fenced=True),
        # a late result of the very attempt that is in doubt
        _move("resolve", "queued sleeping held", "running"),
        # what the sweep says of somebody else's attempt
        _move("recover", "running", "queued sleeping held"),
        _move("wake", "sleeping", "queued"),
        # what a signal or its deadline does
        _move("deliver", "waiting", "queued waiting completed", checkpoint=True),
        _move("expire", "waiting", "queued failed", checkpoint=True),
        # what the end of its last branch, or of one that failed, does; unfit: the results can't be taken
        _move("join", "waiting", "queued completed failed", checkpoint=True),
        _move("unfit", "waiting", "held"),
        # what an operator does; pause and resume set a flag, and move nothing
        _move("cancel", _LIVE, "cancelled", steering=True),
        _move("retry", "held failed", "queued waiting", steering=True),
        _move("retry_anew", "held failed", "queued", checkpoint=True, steering=True),
        _move("skip", f"{_LIVE} failed", "queued completed", checkpoint=True, steering=True),
        _move("rewind", _ANY, "queued waiting", checkpoint=True, steering=True),
        _move("restart", _ANY, "queued", checkpoint=True, steering=True),
        _move("fork", "", "queued waiting", checkpoint=True, steering=True),
    )
}


def sources(name: str) -> tuple[str, ...]:
    """The statuses from which the named move is legal, for a statement's guard."""
    return tuple(sorted(str(status) for status in MOVES[name].sources))


def is_legal(before: Status | None, after: Status) -> bool:
    """Whether any move leads from `before` (None: no case yet) to `after`."""
    return any(
        after in move.targets and (before in move.sources if before is not None else not move.sources)
        for move in MOVES.values()
    )
