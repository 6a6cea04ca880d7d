"""The picture of a workflow: its steps below one another, jumps as arcs beside them, and where a case stands. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keepstep.checkpoint.timeline import Passage
from keepstep.steps.workflow import Workflow

BOX_WIDTH, BOX_HEIGHT, GAP, LANE, MARGIN = 230.0, 34.0, 18.0, 16.0, 10.0
LONGEST = 28
"""Characters of a name in its box."""
LANES = 8
"""Arcs beside one another; more share the outermost."""
END = ""
"""The name of the end, which no step can have."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """From a step to another; to END for the end. taken: the case went this way."""

    source: str
    target: str
    taken: bool


@dataclass(frozen=True, kw_only=True)
class Box:
    """A step. visited: how often the case passed it. seq: its latest checkpoint. now: its status, if it is here."""

    name: str
    x: float
    y: float
    visited: int
    seq: int | None
    now: str | None

    @property
    def label(self) -> str:
        """The name, as it fits in."""
        name = self.name or "end"
        return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class Line:
    """An edge as an SVG path."""

    path: str
    taken: bool
    said: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Boxes and lines in a frame."""

    boxes: Sequence[Box]
    lines: Sequence[Line]
    width: float
    height: float
    known: bool


def picture(code: Workflow | None, passages: Sequence[Passage], *, step: str | None, status: str, seq: int) -> Picture:
    """Draw the workflow. code: None where it isn't loaded: then only the way that the case took is known."""
    ways = _ways(code, passages)
    names = _names(code, passages, step)
    edges = _edges(code, ways)
    ended = any(edge.target == END for edge in edges) or status == "completed"
    order = {name: number for number, name in enumerate([*names, *([END] if ended else [])])}
    beside = [edge for edge in edges if order.get(edge.target, 0) - order.get(edge.source, 0) != 1]
    lanes = _lanes([edge for edge in beside if edge.source in order and edge.target in order], order)
    left = max((lane for edge, lane in lanes.items() if order[edge.target] <= order[edge.source]), default=0)
    right = max((lane for edge, lane in lanes.items() if order[edge.target] > order[edge.source]), default=0)
    x = MARGIN + left * LANE
    stands = END if status == "completed" else step
    boxes = [_box(code, name, order[name], x, ways, (stands, status, seq)) for name in order]
    lines = [_line(edge, order, lanes.get(edge), x) for edge in edges if edge.source in order and edge.target in order]
    lines.sort(key=lambda line: line.taken)
    return Picture(
        boxes=boxes,
        lines=lines,
        width=x + BOX_WIDTH + right * LANE + MARGIN + 4,
        height=2 * MARGIN + len(boxes) * (BOX_HEIGHT + GAP) - GAP,
        known=code is not None,
    )


_Ways = dict[tuple[str, str | None], list[int]]


def _ways(code: Workflow | None, passages: Sequence[Passage]) -> _Ways:
    """The checkpoints of each way from a step to the next; a signal's counts for the step that asked."""
    found: _Ways = {}
    asker: str | None = None
    for passage in passages:
        source = passage.step if passage.kind in ("step", "verify", "skip") else asker
        if passage.kind in ("step", "verify", "skip"):
            asker = passage.step
        if passage.kind in ("rewind", "start", "fork") or source is None:
            asker = None if passage.kind != "start" else asker
            continue
        onward = END if passage.status == "completed" else passage.target
        way = (_today(code, source) or source, _today(code, onward))
        found.setdefault(way, []).append(passage.seq)
    return found


def _today(code: Workflow | None, name: str | None) -> str | None:
    """A former name's present one."""
    step = code.find(name) if code is not None and name is not None else None
    return name if step is None else step.name


def _names(code: Workflow | None, passages: Sequence[Passage], step: str | None) -> list[str]:
    """The steps in the order of declaration, else of the case's way; and those that no code knows any more."""
    passed = [p.step for p in passages if p.kind in ("step", "verify")]
    met = [_today(code, name) or name for name in [*passed, *([step] if step else [])]]
    return list(dict.fromkeys([*(code.steps if code is not None else ()), *met]))


def _edges(code: Workflow | None, ways: _Ways) -> list[Edge]:
    taken = {(source, target) for source, target in ways if target is not None}
    declared: list[tuple[str, str]] = []
    for step in code.steps.values() if code is not None else ():
        following = code.after(step) if code is not None else None
        names = step.next if step.next is not None else ((following.name,) if following else (END,))
        declared += [(step.name, _today(code, name) or name) for name in names]
    pairs = dict.fromkeys([*declared, *sorted(taken)])
    return [Edge(source=source, target=target, taken=(source, target) in taken) for source, target in pairs]


def _box(
    code: Workflow | None, name: str, number: int, x: float, ways: _Ways, stands: tuple[str | None, str, int]
) -> Box:
    at, status, _ = stands
    seqs = [seq for (source, _), passed in ways.items() if source == name for seq in passed]
    here = at is not None and (_today(code, at) or at) == name
    return Box(
        name=name,
        x=x,
        y=MARGIN + number * (BOX_HEIGHT + GAP),
        visited=len(seqs),
        seq=max(seqs, default=None),
        now=status if here else None,
    )


def _lanes(edges: Sequence[Edge], order: dict[str, int]) -> dict[Edge, int]:
    """A lane for each arc, so that those of one side don't lie upon each other; the shortest are innermost."""
    lanes: dict[Edge, int] = {}
    taken: dict[tuple[bool, int], list[tuple[int, int]]] = {}
    for edge in sorted(edges, key=lambda e: abs(order[e.target] - order[e.source])):
        low, high = sorted((order[edge.source], order[edge.target]))
        forward = order[edge.target] > order[edge.source]
        lane = 1
        while lane < LANES and any(low < b and a < high for a, b in taken.get((forward, lane), [])):
            lane += 1
        taken.setdefault((forward, lane), []).append((low, high))
        lanes[edge] = lane
    return lanes


def _line(edge: Edge, order: dict[str, int], lane: int | None, x: float) -> Line:
    top = [MARGIN + order[name] * (BOX_HEIGHT + GAP) for name in (edge.source, edge.target)]
    said = f"{edge.source} → {edge.target or 'end'}"
    if lane is None:  # to the next box
        middle = x + BOX_WIDTH / 2
        return Line(path=f"M{middle:g} {top[0] + BOX_HEIGHT:g}V{top[1] - 1:g}", taken=edge.taken, said=said)
    forward = order[edge.target] > order[edge.source]
    side = x + BOX_WIDTH if forward else x
    out = side + (lane * LANE if forward else -lane * LANE)
    begin, end = top[0] + BOX_HEIGHT * 0.7, top[1] + BOX_HEIGHT * 0.3
    if edge.source == edge.target:
        begin, end = top[0] + BOX_HEIGHT * 0.75, top[0] + BOX_HEIGHT * 0.25
    bend = min(10.0, abs(end - begin) / 2)
    down = 1 if end > begin else -1
    path = (
        f"M{side:g} {begin:g}H{out + (-bend if forward else bend):g}Q{out:g} {begin:g} {out:g} {begin + down * bend:g}"
        f"V{end - down * bend:g}Q{out:g} {end:g} {out + (-bend if forward else bend):g} {end:g}"
        f"H{side + (1 if forward else -1):g}"
    )
    return Line(path=path, taken=edge.taken, said=said)


__all__ = ["Box", "Edge", "Line", "Picture", "picture"]
