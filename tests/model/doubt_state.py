"""What `doubt.py` moves: one case at one step, the attempts at it, and the calls they have made."""

from __future__ import annotations

from typing import NamedTuple


class Head(NamedTuple):
    """The case's row in `heads`. lease, doubt: an attempt, 0 is none."""

    seq: int = 0
    status: str = "queued"
    lease: int = 0
    doubt: int = 0
    paused: bool = False


class Attempt(NamedTuple):
    """A lease in a worker's hands.

    at: claimed, sending, called, raised, interrupted; in a verification looking, done, not done, unknown, failed. Late
    and late done: the commit was refused. Again: and then the case was claimed again.
    """

    lease: int
    at: str
    seq: int


class State(NamedTuple):
    """All there is.

    adrift: the seqs of calls that are still under way though their attempt is over. effects, allowed: by seq, how often
    the step has taken effect, and how often it may. vacant: the process that held the lease is gone for certain.
    unflushed: the head that a crash of the database would bring back. leases: given so far. decided: an operator has
    said what to do about the leases up to this one. decisions, faults: that may still come.
    """

    head: Head = Head()
    attempts: tuple[Attempt, ...] = ()
    adrift: tuple[int, ...] = ()
    effects: tuple[int, ...] = (0, 0)
    allowed: tuple[int, ...] = (1, 1)
    vacant: bool = False
    unflushed: Head | None = None
    leases: int = 0
    decided: int = 0
    decisions: int = 0
    faults: int = 0
    wrong: str = ""

    def attempt(self, attempt: Attempt, at: str = "") -> State:
        """With the attempt at another place; without it, if it has ended."""
        others = tuple(other for other in self.attempts if other.lease != attempt.lease)
        return self._replace(attempts=tuple(sorted((*others, attempt._replace(at=at)))) if at else others)

    def put(self, **changes: object) -> State:
        """After a flushed statement that moved the head."""
        head = self.head._replace(**changes)  # type: ignore[arg-type]
        return self._replace(head=head, unflushed=None, vacant=False)

    def faulty(self) -> State:
        """After one of the faults."""
        return self._replace(faults=self.faults - 1)

    def landed(self, seq: int, *, dedupes: bool) -> State:
        """After a call under this seq's key has reached the outside."""
        effects = tuple((1 if dedupes else n + 1) if at == seq else n for at, n in enumerate(self.effects))
        return self._replace(effects=effects)

    def drifting(self, seq: int) -> State:
        """After a call was left alone."""
        return self._replace(adrift=tuple(sorted((*self.adrift, seq))))

    def allowing(self, seq: int) -> State:
        """After an operator has said that the step may take effect once more."""
        allowed = tuple(n + (at == seq) for at, n in enumerate(self.allowed))
        return self._replace(allowed=allowed, decided=self.leases, decisions=self.decisions - 1)
