"""What the database keeps, and for how long: prune, export, erase, and what takes room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from keepstep.checkpoint import erasure, export, retention, room
from keepstep.checkpoint.erasure import Erased
from keepstep.checkpoint.filters import check_text
from keepstep.checkpoint.retention import Old, Pruned
from keepstep.checkpoint.room import Room
from keepstep.checkpoint.steered import Order
from keepstep.steps.errors import BadFilter
from keepstep.steps.outcome import seconds_of
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.connected import Connected, name_of, named

ALL = 2**63


class Storing(Connected):
    """The part of the client that keeps the database small and lawful."""

    def prune(
        self,
        *,
        workflow: str | Workflow | None = None,
        older_than: timedelta | float | None = None,
        status: str | None = None,
        dry_run: bool = False,
    ) -> Sequence[Pruned]:
        """Delete what is past its retention now, instead of leaving it to the workers; by workflow and status.

        workflow, older_than: instead, its cases that ended longer ago than this (a timedelta or seconds), whatever
        their retention; with this final status, if one is given. dry_run: only count. Raises BadFilter.
        """
        old = _old(workflow, older_than, status)
        if dry_run:
            return retention.prunable(self.db, old)
        return retention.prune(self.db, ALL, old=old)

    def export(self, workflow: str | Workflow, thread_id: str, *, secrets: bool = False) -> Iterator[dict[str, Any]]:
        """Every row that the database has of the case and its children: {"table": ..., "row": {...}}.

        secrets: with the values of secret fields, which are *** otherwise. Raises UnknownCase.
        """
        return export.export(self.db, *named(workflow, thread_id), secrets=secrets)

    def erase(
        self, workflow: str | Workflow, thread_id: str, *, actor: str | None = None, reason: str | None = None
    ) -> Erased:
        """Delete everything of an ended case and its children, for ever; a tombstone says when and by whom.

        Raises UnknownCase, NotErasable (it hasn't ended: cancel it first).
        """
        return erasure.erase(self.db, *named(workflow, thread_id), Order(actor=actor, reason=reason))

    def size(self) -> Room:
        """What takes room in the database, by table and by workflow, and what is wrong with that."""
        return room.measure(self.db)


def _old(workflow: str | Workflow | None, older_than: timedelta | float | None, status: str | None) -> Old | None:
    if workflow is None and older_than is None and status is None:
        return None
    if workflow is None or older_than is None:
        raise BadFilter("whatever their retention, cases are pruned by workflow and older_than: give both.")
    check_text("workflow", name_of(workflow))
    try:
        seconds = seconds_of(older_than)
    except (TypeError, ValueError) as error:
        raise BadFilter(f"older_than: {error}") from None
    return Old(workflow=name_of(workflow), older_than=seconds, status=status)
