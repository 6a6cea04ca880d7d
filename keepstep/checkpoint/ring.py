"""What rings the doorbell: enough to publish one message, nothing of the state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from keepstep.checkpoint.database import Row
from keepstep.steps.step import Target
from keepstep.steps.value import value


@value
class Delivery:
    """What a message names: run the step that starts from checkpoint `seq` of this case."""

    case: UUID
    seq: int


@dataclass(frozen=True, kw_only=True)
class Parent:
    """The fan-out that a case is a branch of: the case that waits for it, and the checkpoint that it waits at."""

    case: UUID
    seq: int


@value
class Ring:
    """A message to send. timeout: the step's, in seconds. priority: 0 to 9, 9 is the most urgent; None: as others."""

    case: UUID
    seq: int
    workflow: str
    thread_id: str
    step: str
    queue: str
    timeout: float
    priority: int | None = None

    @classmethod
    def to(
        cls, target: Target, *, case: UUID, seq: int, workflow: str, thread_id: str, priority: int | None = None
    ) -> Ring:
        """The message for a case that goes on at `target`."""
        return cls(
            case=case,
            seq=seq,
            workflow=workflow,
            thread_id=thread_id,
            step=target.step,
            queue=target.queue,
            timeout=target.timeout,
            priority=priority,
        )


def parent_of(row: Row) -> Parent | None:
    """The parent in a row with `parent` and `parent_seq`."""
    return None if row.parent is None else Parent(case=row.parent, seq=row.parent_seq)


def rings(rows: Iterable[Row]) -> list[Ring]:
    """The messages for the rows that a statement returned."""
    return [
        Ring(
            case=row.id,
            seq=row.seq,
            workflow=row.workflow,
            thread_id=row.thread_id,
            step=row.step,
            queue=row.queue,
            timeout=row.timeout,
            priority=row.priority,
        )
        for row in rows
    ]
