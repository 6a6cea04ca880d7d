"""What `steering.py` moves: one case, the attempts at its steps, and what an operator has in mind."""

from __future__ import annotations

from typing import NamedTuple


class Head(NamedTuple):
    """The case. visit: the number of its arrival at this step."""

    seq: int = 0
    run: int = 0
    step: int = 0
    status: str = "queued"
    lease: int = 0
    paused: bool = False
    visit: int = 0


class Attempt(NamedTuple):
    """A lease in a worker's hands. at: asking (the claim's reply was lost), claimed, called, late, again."""

    lease: int
    at: str
    seq: int
    run: int
    step: int
    visit: int


class State(NamedTuple):
    """All there is.

    effects: what the outside has made, as (key, visit). order: the verb that an operator has in mind, and the seq that
    they saw. leases, visits: so far. verbs, faults: that may still come. wrong: what should never happen.
    """

    head: Head = Head()
    attempts: tuple[Attempt, ...] = ()
    effects: frozenset[tuple[tuple[int, int], int]] = frozenset()
    order: tuple[str, int] | None = None
    leases: int = 0
    visits: int = 0
    verbs: int = 0
    faults: int = 0
    wrong: str = ""

    def attempt(self, attempt: Attempt, at: str = "") -> State:
        """With the attempt at another place; without it, if it has ended."""
        others = tuple(other for other in self.attempts if other.lease != attempt.lease)
        return self._replace(attempts=tuple(sorted((*others, attempt._replace(at=at)))) if at else others)

    def put(self, **changes: object) -> State:
        """With the head moved."""
        return self._replace(head=self.head._replace(**changes))  # type: ignore[arg-type]

    def faulty(self) -> State:
        """After one of the faults."""
        return self._replace(faults=self.faults - 1)
