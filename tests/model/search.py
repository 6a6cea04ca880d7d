"""Breadth-first search through all states of a model.

It finds the shortest trace to each state that must not be, and, if there is any, a state that is *stuck*: one from
which no good end can be reached by fair moves, that is, without further faults and however late the sweep comes.
"""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)

STUCK = "stuck: no good end can be reached any more"


class Move(NamedTuple, Generic[S]):
    """One thing that may happen. label: "action: details". fault: it may happen, but nobody may count on it."""

    label: str
    state: S
    fault: bool = False


class Real(NamedTuple):
    """What an action stands for. code: a statement or function, by name; "" is the world. move: its row in MOVES."""

    code: str = ""
    move: str = ""


class Model(Protocol[S]):
    """What the search wants to know."""

    def start(self) -> S:
        """The first state."""

    def moves(self, state: S, /) -> Iterator[Move[S]]:
        """All that may happen next."""

    def broken(self, state: S, /) -> str:
        """The invariant that the state breaks, "" if it is sound. Nothing is explored behind a broken state."""

    def at_rest(self, state: S, /) -> bool:
        """Whether this is a good end."""

    def status(self, state: S, /) -> str:
        """The case's status."""

    def show(self, state: S, /) -> str:
        """The state in a few words, for traces."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search came upon.

    broken: by invariant, the shortest trace to a state that breaks it. changes: (action, status before, after).
    """

    states: int
    broken: Mapping[str, str]
    changes: frozenset[tuple[str, str, str]]

    @property
    def actions(self) -> set[str]:
        """The actions that were taken at least once."""
        return {action for action, _, _ in self.changes}


@dataclass
class _Seen(Generic[S]):
    """The states met so far, numbered in the order of meeting, each with the way back."""

    number: dict[S, int] = field(default_factory=dict)
    states: list[S] = field(default_factory=list)
    came_from: list[int] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    fairly_from: list[list[int]] = field(default_factory=list)

    def add(self, state: S, came_from: int, by: str) -> int:
        known = self.number.setdefault(state, len(self.states))
        if known == len(self.states):
            self.states.append(state)
            self.came_from.append(came_from)
            self.by.append(by)
            self.fairly_from.append([])
        return known

    def trace(self, model: Model[S], at: int) -> str:
        """The way to a state, a line for each move."""
        lines: list[str] = []
        while at >= 0:
            lines.append(f"{self.by[at]:<58} {model.show(self.states[at])}")
            at = self.came_from[at]
        return "\n".join(f"{n:3} {line}" for n, line in enumerate(reversed(lines)))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing here is garbage, and looking for it among a million tuples costs a third of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@_uncollected()
def explore(model: Model[S], *, until: str = "", limit: int = 1_000_000) -> Found:
    """Visit all states of the model. until: stop as soon as this invariant is broken. limit: give up beyond it."""
    seen: _Seen[S] = _Seen()
    seen.add(model.start(), -1, "start")
    broken: dict[str, int] = {}
    resting: list[int] = []
    changes: set[tuple[str, str, str]] = set()
    at = 0
    while at < len(seen.states):
        state = seen.states[at]
        wrong = model.broken(state)
        if wrong:
            broken.setdefault(wrong, at)
            if wrong == until:
                break
        else:
            if model.at_rest(state):
                resting.append(at)
            before = model.status(state)
            for label, after, fault in model.moves(state):
                changes.add((label.partition(":")[0], before, model.status(after)))
                number = seen.add(after, at, label)
                if not fault:
                    seen.fairly_from[number].append(at)
        if len(seen.states) > limit:
            raise RuntimeError(f"more than {limit:,} states: the model's bounds are too wide, or it isn't finite")
        at += 1
    else:
        if not broken:
            stuck = _first_stuck(seen, resting)
            if stuck is not None:
                broken[STUCK] = stuck
    traces = {wrong: seen.trace(model, number) for wrong, number in broken.items()}
    return Found(states=len(seen.states), broken=traces, changes=frozenset(changes))


def _first_stuck(seen: _Seen[S], resting: list[int]) -> int | None:
    """The first state from which no state at rest is reached by fair moves."""
    fine, look = set(resting), list(resting)
    while look:
        for before in seen.fairly_from[look.pop()]:
            if before not in fine:
                fine.add(before)
                look.append(before)
    return next((number for number in range(len(seen.states)) if number not in fine), None)


def assert_sound(model: Model[S], *, at_least: int) -> Found:
    """No invariant breaks, nothing gets stuck, and enough states were visited for that to mean something."""
    found = explore(model)
    assert not found.broken, _tell(model, found)
    assert found.states >= at_least, f"only {found.states} states: {model} has become too narrow to prove anything"
    return found


def assert_caught(model: Model[S], expected: str) -> Found:
    """The search finds a trace to exactly this."""
    found = explore(model, until=expected)
    assert expected in found.broken, f"{model} should lead to {expected!r}, but: {_tell(model, found) or 'all is well'}"
    return found


def _tell(model: Model[S], found: Found) -> str:
    return "\n\n".join(f"{model}\n{wrong} ({found.states} states)\n{trace}" for wrong, trace in found.broken.items())
