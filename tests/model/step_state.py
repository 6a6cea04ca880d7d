"""What `step.py` and `step_sweep.py` move: one case, the attempts at its steps, the broker, and the world outside."""

from __future__ import annotations

from typing import NamedTuple


class Head(NamedTuple):
    """The case's row in `heads`. lease: 0 is nobody's. number: of the attempt, for people."""

    seq: int = 0
    status: str = "queued"
    lease: int = 0
    number: int = 0


class Attempt(NamedTuple):
    """A delivery in a worker's hands.

    at: asking (the claim's reply was lost), claimed, hung, called, raised, late (the commit was refused), again (the
    late claim was not), publishing.
    """

    lease: int
    at: str
    seq: int
    number: int


class Checkpoint(NamedTuple):
    """A row of `checkpoints`. ran: the seq that its step started from."""

    ran: int
    lease: int


class State(NamedTuple):
    """All there is.

    checkpoints: 1, 2, and so on; the one of the start is left out. unflushed: what a crash of the database would bring
    back, if that isn't what everybody sees. bell: the seqs that messages in the broker name. set_aside: leases that
    have ended without a checkpoint, and whose workers don't know it yet. calls: raw calls, by seq. effects: what the
    outside made of them, by key. losses: attempts that were allowed to come to nothing. leases: given so far. faults:
    that may still come. vacant: why nobody holds the head's lease. wrong: what should never happen.
    """

    head: Head = Head()
    checkpoints: tuple[Checkpoint, ...] = ()
    unflushed: tuple[Head, tuple[Checkpoint, ...]] | None = None
    attempts: tuple[Attempt, ...] = ()
    bell: tuple[int, ...] = (0,)
    set_aside: frozenset[int] = frozenset()
    calls: tuple[int, ...] = ()
    effects: frozenset[tuple[int, int]] = frozenset()
    losses: int = 0
    leases: int = 0
    faults: int = 0
    vacant: str = ""
    wrong: str = ""

    def attempt(self, attempt: Attempt, at: str = "") -> State:
        """With the attempt at another place; without it, if it has ended."""
        others = tuple(other for other in self.attempts if other.lease != attempt.lease)
        return self._replace(attempts=tuple(sorted((*others, attempt._replace(at=at)))) if at else others)

    def rung(self, seq: int) -> State:
        """With one more message."""
        return self._replace(bell=tuple(sorted((*self.bell, seq))))

    def flushed(self, **changes: object) -> State:
        """After a statement that PostgreSQL has flushed, and with it all that went before."""
        return self._replace(unflushed=None, **changes)  # type: ignore[arg-type]

    def faulty(self) -> State:
        """After one of the faults."""
        return self._replace(faults=self.faults - 1)
