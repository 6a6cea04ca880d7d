"""The timeline's bars: what lay when, and that nothing is too thin to be seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from keepstep.checkpoint.reads import Case
from keepstep.checkpoint.timeline import Entry, Now, Stretch, Tried
from keepstep.monitor.bars import THINNEST, chart
from keepstep.monitor.scale import WIDTH, Scale
from keepstep.steps.moves import Status

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def entry(seq: int, when: float, *, started: float | None = None, status: str = "queued", **more: Any) -> Entry:
    values: dict[str, Any] = {"kind": "start" if seq == 0 else "step", "step": f"s{seq}", "target": f"s{seq + 1}"}
    values |= {"attempt": 1, "host": "box", "is_snapshot": seq == 0, "back_to": None, "bytes": 10, **more}
    return Entry(seq=seq, status=status, at=at(when), started_at=None if started is None else at(started), **values)


def tried(seq: int, begin: float, end: float, outcome: str = "raised") -> Tried:
    error = {"type": "OSError", "message": "the API is down"}
    return Tried(seq=seq, step=f"s{seq + 1}", attempt=1, outcome=outcome, error=error, started_at=at(begin), at=at(end))


def case(status: str, seq: int) -> Case:
    ended = status in ("completed", "failed", "cancelled")
    return Case(
        id=uuid4(), workflow="w", thread_id="A", run=uuid4(), status=Status(status), paused=False,
        step=None if ended else f"s{seq + 1}", seq=seq, queue="q", attempt=1, failures=0, crashes=0, reason=None,
        error=None, created_at=BEGIN, finished_at=at(100) if ended else None, since=None, due_at=None,
    )  # fmt: skip


def kinds(line: Any) -> list[tuple[str, float, float]]:
    found = [(p.kind, (p.begin - BEGIN).total_seconds(), (p.end - BEGIN).total_seconds()) for p in line.pieces]
    return sorted(found, key=lambda piece: (piece[1], piece[2]))


def draw(entries: list[Entry], tries: list[Tried], status: str, now: float, claimed: float | None = None) -> Any:
    stretch = Stretch(entries=entries, tried=tries, waited=[], earlier=None)
    moment = Now(now=at(now), entered_at=None, claimed_at=None if claimed is None else at(claimed))
    return chart(case(status, entries[-1].seq), stretch, moment, latest=True)


def test_a_step_that_was_tried_three_times_shows_each_and_what_lay_between() -> None:
    drawn = draw([entry(0, 0), entry(1, 9, started=8, attempt=3)], [tried(0, 1, 2), tried(0, 4, 5)], "completed", 20)
    assert kinds(drawn.lines[1]) == [
        ("queued", 0, 1),
        ("failed", 1, 2),
        ("backoff", 2, 4),
        ("failed", 4, 5),
        ("backoff", 5, 8),
        ("run", 8, 9),
    ]
    assert drawn.lines[1].attempts == 3
    assert drawn.lines[1].took == 1
    assert len(drawn.lines) == 2, "nothing goes on after the end"


def test_what_goes_on_now_reaches_until_now() -> None:
    waiting = draw([entry(0, 0), entry(1, 2, started=1, status="waiting", target=None)], [], "waiting", 50)
    assert kinds(waiting.lines[-1]) == [("waiting", 2, 50)]
    running = draw([entry(0, 0)], [tried(0, 1, 2)], "running", 9, claimed=5)
    assert kinds(running.lines[-1]) == [("queued", 0, 1), ("failed", 1, 2), ("backoff", 2, 5), ("running", 5, 9)]
    held = draw([entry(0, 0)], [tried(0, 1, 2, "held")], "held", 9)
    assert kinds(held.lines[-1]) == [("queued", 0, 1), ("failed", 1, 2), ("held", 2, 9)]
    failed = draw([entry(0, 0)], [tried(0, 1, 2, "failed")], "failed", 9)
    assert kinds(failed.lines[-1]) == [("queued", 0, 1), ("failed", 1, 2)]


def test_three_weeks_of_waiting_leave_the_rest_to_be_seen() -> None:
    entries = [entry(0, 0), *(entry(n, n, started=n - 0.5) for n in range(1, 6))]
    entries += [entry(6, 2e6, started=2e6 - 0.5)]
    drawn = draw(entries, [], "completed", 2e6)
    assert drawn.squeezed
    first = next(piece for piece in drawn.lines[1].pieces if piece.kind == "run")
    assert first.width >= THINNEST
    assert first.x > 2


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=60), st.booleans())
def test_a_scale_never_turns_back_and_stays_within_its_width(seconds: list[float], squeezed: bool) -> None:
    instants = sorted(at(s) for s in seconds)
    scale = Scale(instants, squeezed=squeezed)
    places = [scale(instant) for instant in instants]
    assert places == sorted(places)
    assert all(0 <= place <= WIDTH for place in places)
    assert scale(instants[0] - timedelta(days=1)) == 0
