"""The timeline: a row for each checkpoint, with its attempts, waits and back-offs as pieces of a bar. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.timeline import Entry, Now, Stretch, Tried
from keepstep.monitor.scale import WIDTH, Scale
from keepstep.steps.words import duration, one_line

THINNEST = 3.0
"""Of a piece, so that a step of a millisecond can be seen."""

_BETWEEN = {"queued": "queued", "sleeping": "sleeping", "waiting": "waiting"}
_SPOKEN = {
    "queued": "waited for a worker",
    "sleeping": "slept",
    "waiting": "waited for a signal, or for branches",
    "held": "held",
    "backoff": "backed off, or waited for a worker",
    "run": "ran",
    "running": "runs",
    "failed": "tried in vain",
}
LEGEND = (
    ("queued", "waits for a worker"),
    ("run", "runs"),
    ("failed", "attempt in vain"),
    ("backoff", "until the next attempt"),
    ("sleeping", "sleeps"),
    ("waiting", "waits for a signal, or for branches"),
    ("held", "held"),
)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A part of a bar. kind: as in LEGEND, or "running". said: what a pointer on it shows."""

    kind: str
    begin: datetime
    end: datetime
    said: str
    x: float = 0.0
    width: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row. seq: its checkpoint; None: where the case stands now. took: seconds that the step itself ran.

    note: where it led, or what went wrong.
    """

    seq: int | None
    kind: str
    step: str
    at: datetime
    took: float | None
    attempts: int
    note: str
    pieces: Sequence[Piece] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Chart:
    """All rows, the axis's ends, and whether it is squeezed."""

    lines: Sequence[Line]
    begin: datetime | None
    end: datetime | None
    squeezed: bool


def chart(case: Case, stretch: Stretch, now: Now, *, latest: bool, squeezed: bool | None = None) -> Chart:
    """Draw a stretch of a case's past. latest: it reaches until now, so that what happens now has a row too."""
    lines: list[Line] = []
    before: Entry | None = None
    for entry in stretch.entries:
        tried = [one for one in stretch.tried if one.seq == entry.seq - 1]
        lines.append(_line(entry, before, tried))
        before = entry
    if latest and before is not None:
        tried = [one for one in stretch.tried if one.seq >= before.seq]
        if not case.ended or tried:
            lines.append(_present(case, before, tried, now))
    pieces = [piece for line in lines for piece in line.pieces]
    instants = [i for piece in pieces for i in (piece.begin, piece.end)] + [line.at for line in lines]
    scale = Scale(instants, squeezed=squeezed)
    return Chart(
        lines=[_placed(line, scale) for line in lines],
        begin=scale.instants[0] if scale.instants else None,
        end=scale.instants[-1] if scale.instants else None,
        squeezed=scale.squeezed,
    )


def _line(entry: Entry, before: Entry | None, tried: Sequence[Tried]) -> Line:
    own = [] if entry.started_at is None else [("run", entry.started_at, entry.at, "")]
    begin = entry.at if before is None else before.at
    between = "queued" if before is None else _BETWEEN.get(before.status, "queued")
    took = None if entry.started_at is None else (entry.at - entry.started_at).total_seconds()
    return Line(
        seq=entry.seq,
        kind=entry.kind,
        step=entry.step,
        at=entry.at,
        took=took,
        attempts=max(entry.attempt, len(tried) + bool(own)),
        note=_led(entry),
        pieces=_pieces(begin, between, [*_tries(tried), *own], entry.at if not own else None),
    )


def _present(case: Case, before: Entry, tried: Sequence[Tried], now: Now) -> Line:
    """What happens now, or how a case without a last checkpoint ended."""
    runs = case.status == "running"
    own = [("running", now.claimed_at, now.now, "")] if runs and now.claimed_at else []
    rest = None if own or case.ended else now.now
    between = _BETWEEN.get(before.status, "queued")
    then = {"held": "held", "sleeping": "sleeping" if not tried else "backoff"}.get(case.status, "backoff")
    return Line(
        seq=None,
        kind=str(case.status),
        step=case.step or (tried[-1].step if tried else ""),
        at=now.now if not case.ended else (case.finished_at or before.at),
        took=None,
        attempts=max(case.attempt or 0, len(tried)),
        note=_reason(case),
        pieces=_pieces(before.at, between, [*_tries(tried), *own], rest, then=then),
    )


_Try = tuple[str, datetime, datetime, str]


def _tries(tried: Iterable[Tried]) -> list[_Try]:
    return [("failed", one.started_at or one.at, one.at, _said(one)) for one in tried]


def _pieces(
    begin: datetime, between: str, tries: Sequence[_Try], rest: datetime | None, *, then: str = "backoff"
) -> list[Piece]:
    """What lay before the first try, the tries, and what lay between them. rest: until when it goes on after them."""
    if not tries:
        return [] if rest is None else [_piece(between if then != "held" else "held", begin, rest)]
    tries = sorted(tries, key=lambda one: one[1])
    found = [_piece(between, begin, tries[0][1])]
    found += [_piece(*one) for one in tries]
    found += [_piece("backoff", one[2], other[1]) for one, other in pairwise(tries)]
    if rest is not None:
        found.append(_piece(then, tries[-1][2], rest))
    return [piece for piece in found if piece.end > piece.begin or piece.kind in ("run", "failed", "running")]


def _piece(kind: str, begin: datetime, end: datetime, more: str = "") -> Piece:
    long = duration(max(0.0, (end - begin).total_seconds()))
    return Piece(kind=kind, begin=begin, end=max(begin, end), said=f"{_SPOKEN[kind]} {long}" + (more and f": {more}"))


def _placed(line: Line, scale: Scale) -> Line:
    pieces = []
    for piece in line.pieces:
        x = min(scale(piece.begin), WIDTH - THINNEST)
        width = max(THINNEST, scale(piece.end) - x)
        pieces.append(Piece(**{**vars(piece), "x": round(x, 1), "width": round(width, 1)}))
    order = {"run": 1, "running": 1, "failed": 1}
    pieces.sort(key=lambda piece: order.get(piece.kind, 0))  # what ran is drawn over what waited
    return Line(**{**vars(line), "pieces": pieces})


def _led(entry: Entry) -> str:
    if entry.kind in ("rewind", "fork") and entry.back_to is not None:
        return f"back to {entry.back_to}" if entry.back_to >= 0 else "back to the beginning"
    if entry.status in ("waiting", "sleeping", "completed"):
        return entry.status
    return f"→ {entry.target}" if entry.target else ""


def _said(tried: Tried) -> str:
    error = tried.error or {}
    told = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return one_line(f"{tried.outcome.replace('_', ' ')}" + (f": {told}" if told else ""), 200)


def _reason(case: Case) -> str:
    error = case.error or case.reason or {}
    return one_line(": ".join(str(error[name]) for name in ("why", "message") if error.get(name)), 120)
