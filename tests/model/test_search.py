"""The search finds what is there, by the shortest way, and says so when it gives up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.model.search import STUCK, Move, assert_caught, assert_sound, explore


@dataclass(frozen=True)
class Counter:
    """Counts to `goal`, by ones or by a faulty jump; `trap` leads nowhere, `forbidden` must not be."""

    goal: int = 5
    trap: int = -1
    forbidden: int = -1

    def start(self) -> int:
        return 0

    def moves(self, state: int) -> Iterator[Move[int]]:
        if state not in (self.goal, self.trap):
            yield Move(f"step: to {state + 1}", state + 1)
            yield Move(f"jump: to {state + 3}", state + 3, fault=True)

    def broken(self, state: int) -> str:
        return "forbidden" if state == self.forbidden else ""

    def at_rest(self, state: int) -> bool:
        return state == self.goal

    def status(self, state: int) -> str:
        return "even" if state % 2 == 0 else "odd"

    def show(self, state: int) -> str:
        return str(state)


class Below(Counter):
    def moves(self, state: int) -> Iterator[Move[int]]:
        return (move for move in super().moves(state) if move.state <= self.goal)


def test_all_states_are_visited_once() -> None:
    assert assert_sound(Below(), at_least=6).states == 6


def test_the_shortest_trace_is_told() -> None:
    trace = assert_caught(Below(forbidden=4), "forbidden").broken["forbidden"]
    assert [line.split()[1] for line in trace.splitlines()] == ["start", "step:", "jump:"]


def test_nothing_is_explored_behind_a_broken_state() -> None:
    assert explore(Below(goal=100, forbidden=2)).broken.keys() == {"forbidden"}


def test_a_state_is_stuck_if_only_a_fault_leads_on() -> None:
    assert explore(Below(trap=2)).broken.keys() == {STUCK}


def test_a_search_without_bounds_gives_up_loudly() -> None:
    with pytest.raises(RuntimeError, match="isn't finite"):
        explore(Counter(goal=-1), limit=1000)


def test_actions_and_changes_of_the_status_are_kept() -> None:
    found = explore(Below())
    assert found.actions == {"step", "jump"}
    assert ("step", "even", "odd") in found.changes


def test_a_model_that_proves_too_little_is_refused() -> None:
    with pytest.raises(AssertionError, match="too narrow"):
        assert_sound(Below(), at_least=7)


def test_a_mutation_that_is_not_caught_is_refused() -> None:
    with pytest.raises(AssertionError, match="all is well"):
        assert_caught(Below(), "forbidden")
