"""Steer many cases at once: those that a filter finds, one transaction each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypedDict, Unpack

from keepstep.checkpoint import reads
from keepstep.checkpoint.filters import Filter
from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.steered import refusal
from keepstep.steps.errors import BadFilter, CaseError
from keepstep.steps.moves import LIVE, sources
from keepstep.steps.workflow import Workflow
from keepstep.workers.client.steering import Steering

PAGE = 500


class Filters(TypedDict, total=False):
    """Which cases; as of `list`. older_than: a timedelta or seconds since a case came to its step, or ended."""

    workflow: str | Workflow | None
    status: str | None
    step: str | None
    tags: Mapping[str, Any] | None
    older_than: timedelta | float | None
    error: str | None
    begins: str | None


@dataclass(frozen=True, kw_only=True)
class OneOfMany:
    """What became of one case, or would become. status, step: as they were found. refused: why it wasn't done."""

    workflow: str
    thread_id: str
    status: str
    step: str | None
    refused: str | None = None


class SteeringMany(Steering):
    """The verbs by filter.

    Filters are those of `list`: workflow, status, step and so on; at least one. The cases are found first, then each is
    moved in a transaction of its own; one that has moved meanwhile is refused, and the others go on. dry_run: only
    found. Cases in a status that the verb doesn't move are passed over. Raises BadFilter.
    """

    def cancel_many(
        self, *, dry_run: bool = False, actor: str | None = None, reason: str | None = None, **filters: Unpack[Filters]
    ) -> list[OneOfMany]:
        """`cancel` for each case that matches."""
        return self._many("cancel", lambda *n: self.cancel(*n, actor=actor, reason=reason), dry_run, filters)

    def pause_many(
        self, *, dry_run: bool = False, actor: str | None = None, reason: str | None = None, **filters: Unpack[Filters]
    ) -> list[OneOfMany]:
        """`pause` for each case that matches."""
        return self._many("pause", lambda *n: self.pause(*n, actor=actor, reason=reason), dry_run, filters)

    def resume_many(
        self, *, dry_run: bool = False, actor: str | None = None, reason: str | None = None, **filters: Unpack[Filters]
    ) -> list[OneOfMany]:
        """`resume` for each case that matches."""
        return self._many("resume", lambda *n: self.resume(*n, actor=actor, reason=reason), dry_run, filters)

    def retry_many(
        self, *, dry_run: bool = False, actor: str | None = None, reason: str | None = None, **filters: Unpack[Filters]
    ) -> list[OneOfMany]:
        """`retry` for each case that matches, under the same keys."""
        return self._many("retry", lambda *n: self.retry(*n, actor=actor, reason=reason), dry_run, filters)

    def _many(self, verb: str, act: Callable[[str, str], Any], dry_run: bool, given: Filters) -> list[OneOfMany]:
        which = Filter.of(**given)
        found = {case.id: case for case in self._matching(verb, which) if _takes(verb, case)}
        return [_one(case, act, dry_run=dry_run) for case in found.values()]

    def _matching(self, verb: str, which: Filter) -> Iterator[Case]:
        """Found by one look at all statuses: one that moves meanwhile is neither missed nor found twice."""
        if which == Filter():
            raise BadFilter(f"{verb} by filter moves every case that matches: give at least one filter, a workflow say")
        movable = tuple(sorted(map(str, LIVE))) if verb in ("pause", "resume") else sources(verb)
        for status in which.statuses or ():
            if status not in movable:
                legal = ", ".join(movable)
                raise BadFilter(f"{verb} never moves a case that is {status}; it moves those that are {legal}")
        which = which if which.statuses else replace(which, statuses=movable)
        cursor: str | None = None
        while True:
            page = reads.select(self.db, which, cursor=cursor, limit=PAGE)
            yield from page
            if page.cursor is None:
                return
            cursor = page.cursor


def _takes(verb: str, case: Case) -> bool:
    return refusal(case.workflow, case.thread_id, verb, case.status, paused=case.paused) is None


def _one(case: Case, act: Callable[[str, str], Any], *, dry_run: bool) -> OneOfMany:
    refused = None
    if not dry_run:
        try:
            act(case.workflow, case.thread_id)
        except CaseError as error:
            refused = str(error)
    return OneOfMany(
        workflow=case.workflow, thread_id=case.thread_id, status=case.status, step=case.step, refused=refused
    )
