"""Which cases a list shows or a verb moves: what a caller asks for, checked before the database sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from keepstep.checkpoint import codec
from keepstep.steps.errors import BadFilter
from keepstep.steps.keys import case_id, why_unstorable
from keepstep.steps.moves import LIVE
from keepstep.steps.outcome import seconds_of
from keepstep.steps.terms import Tags, check_tags
from keepstep.steps.workflow import Workflow

MOST = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class Filter:
    """None is any. step: where a live case stands. tags: those it has, at the least.

    statuses: any of these. older_than: seconds since it came to its step, or ended. error: text of why it is held,
    backs off, or failed. begins: how the thread id begins, letter for letter. parent: the id of the case that they are
    branches of.
    """

    workflow: str | None = None
    statuses: tuple[str, ...] | None = None
    step: str | None = None
    tags: Mapping[str, Any] | None = None
    older_than: float | None = None
    error: str | None = None
    begins: str | None = None
    parent: UUID | None = None

    @classmethod
    def of(
        cls,
        *,
        workflow: str | Workflow | None = None,
        status: str | None = None,
        step: str | None = None,
        tags: Tags | None = None,
        older_than: timedelta | float | None = None,
        error: str | None = None,
        begins: str | None = None,
        parent: tuple[str, str] | None = None,
    ) -> Filter:
        """Check what a caller gave: BadFilter, and BadStart of tags, say what can't be."""
        name = workflow.name if isinstance(workflow, Workflow) else workflow
        for what, text in (
            ("workflow", name),
            ("status", status),
            ("step", step),
            ("error", error),
            ("begins", begins),
        ):
            check_text(what, text)
        try:
            seconds = None if older_than is None else seconds_of(older_than)
        except (TypeError, ValueError) as reason:
            raise BadFilter(f"older_than: {reason}") from None
        return cls(
            workflow=name,
            statuses=None if status is None else (str(status),),
            step=step,
            tags=check_tags(tags),
            older_than=seconds,
            error=error,
            begins=begins or None,
            parent=None if parent is None else _parent(parent),
        )

    @property
    def by_status(self) -> dict[str, Any]:
        """The statuses as the statement takes them: live cases and ended ones are found in different ways."""
        wanted: Sequence[str] = self.statuses or ()
        live = [status for status in wanted if status in LIVE]
        return {
            "live": live if live and len(live) == len(wanted) else None,
            "ended": wanted[0] if len(wanted) == 1 and not live else None,
            "statuses": list(wanted) if len(wanted) > 1 and len(live) < len(wanted) else None,
        }


def _parent(given: tuple[str, str]) -> UUID:
    if not (isinstance(given, tuple | list) and len(given) == 2 and all(isinstance(part, str) for part in given)):
        raise BadFilter(f"parent: give its workflow and thread id, as a pair, not {given!r}")
    for part in given:
        check_text("parent", part)
    return case_id(*given)


def check_text(what: str, text: object) -> None:
    """Refuse what no stored name can be; None is left out."""
    if text is None:
        return
    if not isinstance(text, str):
        raise BadFilter(f"{what}: give its name, as text, not a {type(text).__name__}")
    if (flaw := why_unstorable(text)) is not None:
        raise BadFilter(f"{what}: {text!r} has {flaw}")


def check_limit(limit: int) -> int:
    """Return the limit if it is a number of rows."""
    if type(limit) is not int or not 0 <= limit <= MOST:
        raise BadFilter(f"limit must be a whole number, not negative, and not {limit!r}")
    return limit


def containing(text: str) -> str:
    """The LIKE pattern for stored JSON that has the text in it."""
    return f"%{literal(codec.encode(text)[1:-1])}%"


def literal(text: str) -> str:
    """The LIKE pattern for exactly this text."""
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return text
