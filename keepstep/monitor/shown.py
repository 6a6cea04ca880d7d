"""Words for pages: times, statuses, stored texts. Templates escape what they print; here it's made harmless to read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from keepstep.monitor.forms import Field
from keepstep.steps.words import duration, one_line, printable

LONGEST = 100_000
"""Characters of a state that a page shows; the rest is there for download."""

STATUS_WORDS = {
    "queued": "waits for a worker",
    "running": "a worker runs its step",
    "sleeping": "a timer or a back-off runs",
    "waiting": "waits for a signal, or for branches",
    "held": "parked for an operator",
    "completed": "went through all its steps",
    "failed": "ended by an error",
    "cancelled": "ended by an operator",
}


BRANCH_WORDS = {"refused": "refused: their thread ids were taken", "begin": "to begin"}
"""Of branches that have no case; the others are named by their status."""


def number(count: int) -> str:
    """A count, with its thousands apart."""
    return f"{count:,}"


def text(value: object) -> str:
    """A stored text with whatever can't be seen written out: direction marks, control characters."""
    return printable(str(value))


def line(value: object, limit: int = 160) -> str:
    """The same in one line, cut."""
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str), limit)


def pretty(value: Any, limit: int = LONGEST) -> str:
    """JSON over several lines, each made harmless; cut after `limit` characters."""
    whole = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    cut = whole if len(whole) <= limit else f"{whole[:limit]}\n… {len(whole) - limit:,} characters more"
    return "\n".join(printable(part) for part in cut.split("\n"))


def text_block(value: object) -> str:
    """A stored text of several lines, each made harmless."""
    return "\n".join(printable(part.expandtabs(4)) for part in str(value)[:LONGEST].split("\n"))


def initial(field: Field) -> str:
    """What a form's field holds at first."""
    value = field.initial
    if value is None:
        return ""
    if field.kind == "choice":
        return str(list(field.choices).index(value)) if value in field.choices else ""
    return value if isinstance(value, str) and field.kind != "json" else json.dumps(value, ensure_ascii=False)


def iso(instant: datetime) -> str:
    """For the `datetime` attribute."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds")


def moment(instant: datetime | None) -> str:
    """To the second, in UTC."""
    return "" if instant is None else f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def ago(instant: datetime | None, now: datetime | None = None) -> str:
    """How long ago, or in what time."""
    if instant is None:
        return ""
    seconds = ((now or datetime.now(UTC)) - instant).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def took(seconds: float | None) -> str:
    """A length of time."""
    return "" if seconds is None else duration(max(0.0, seconds))


def size(count: int) -> str:
    """Bytes."""
    return f"{count:,} B" if count < 10_000 else f"{count / 1024:,.0f} KiB"


def why(error: dict[str, Any] | None, limit: int = 160) -> str:
    """A stored error in one line."""
    parts = [str(error[name]) for name in ("why", "type", "message") if error.get(name)] if error else []
    return one_line(": ".join(parts), limit)


def cost(spent: dict[str, Any]) -> str:
    """What a call cost, by unit."""
    return ", ".join(f"{printable(name)} {number:,.6g}" for name, number in spent.items())


def plural(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
