"""Values that are stored apart (large ones, chunks of logs), the checkpoints that name them, and the fold.

A case of four steps. What each checkpoint names is in NAMES: the third drops the first value, the fourth needs it again
while it may still be there, or be on its way out. A commit is one transaction of two statements: it keeps what is new,
taking the head's lock first, then writes the checkpoint. Meanwhile old checkpoints are folded away, and with them
values that none names any more; an operator rewinds once to an older one, in a transaction of two statements, too.

Bounds: `slots` attempts at once, `faults`. Messages are left out: whoever wants to may claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import Move, Real

MISSING = "a checkpoint names a value that isn't there"

NAMES = ({"a"}, {"a", "b"}, {"c"}, {"a"})
"""By step: what the checkpoint that it writes names."""

RULES = {
    "a value is stored before its checkpoint, or with it": MISSING,
    "a value is as durable as its checkpoint": MISSING,
    "only what no checkpoint names is swept": MISSING,
    "a late commit stores its values again": MISSING,
    "a verb looks after it has the lock": MISSING,
}

TWO_BELTS = {("no value is swept while a step runs", "who stores a value has the head's lock"): MISSING}
"""Of each pair either is enough."""

STANDS_FOR = {
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "keep": Real("keepstep.checkpoint.sql.blobs.KEEP_MANY"),
    "commit": Real("keepstep.checkpoint.sql.hot.COMMIT", move="advance"),
    "complete": Real("keepstep.checkpoint.sql.hot.COMPLETE", move="complete"),
    "refused": Real("keepstep.workers.settle.settle"),
    "late claim": Real("keepstep.checkpoint.sql.hot.CLAIM_AGAIN", move="claim"),
    "too late": Real("keepstep.checkpoint.sql.hot.RECORD_LATE"),
    "fold": Real("keepstep.checkpoint.sql.fold.CHECKPOINTS"),
    "sweep values": Real("keepstep.checkpoint.sql.fold.UNNAMED_BLOBS"),
    "look": Real("keepstep.checkpoint.places.there"),
    "rewind": Real("keepstep.checkpoint.steered.put", move="rewind"),
    "taken for dead": Real("keepstep.checkpoint.sql.sweep.RECOVER_NODES", move="recover"),
    "dies": Real("keepstep.checkpoint.sql.sweep.RECOVER_EXECUTOR", move="recover"),
    "database crashes": Real(),
}


class Attempt(NamedTuple):
    """at: claimed, kept (its transaction is open), late, again (claimed late). new: what that transaction stores."""

    lease: int
    at: str
    step: int
    new: frozenset[str] = frozenset()


class State(NamedTuple):
    """All there is.

    step: the next one, from 0. names: of the checkpoints that are there, the oldest first, each behind its next step.
    loose: stored, and not flushed yet. lock: who has the head's: a lease, -1 for the operator. looked: the checkpoint
    that the operator is about to go back to.
    """

    status: str = "queued"
    step: int = 0
    lease: int = 0
    names: tuple[tuple[int, frozenset[str]], ...] = ((0, frozenset()),)
    stored: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()
    attempts: tuple[Attempt, ...] = ()
    lock: int = 0
    looked: tuple[int, frozenset[str]] | None = None
    rewinds: int = 1
    leases: int = 0
    faults: int = 0

    def attempt(self, attempt: Attempt, at: str = "", new: frozenset[str] = frozenset()) -> State:
        """With the attempt at another place; without it, if it has ended. Its open transaction has ended."""
        others = tuple(other for other in self.attempts if other.lease != attempt.lease)
        changed = (*others, attempt._replace(at=at, new=new)) if at else others
        lock = 0 if self.lock == attempt.lease else self.lock
        return self._replace(attempts=tuple(sorted(changed, key=lambda a: a.lease)), lock=lock)


@dataclass(frozen=True)
class Values:
    """The model. without: rules that are left out."""

    without: frozenset[str] = frozenset()
    slots: int = 2
    faults: int = 2

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State(faults=self.faults)

    def status(self, s: State) -> str:
        return s.status

    def at_rest(self, s: State) -> bool:
        return s.status == "completed"

    def show(self, s: State) -> str:
        named = ", ".join(f"{step}: {''.join(sorted(names)) or '-'}" for step, names in s.names)
        busy = ", ".join(f"{a.at} {a.lease}" for a in s.attempts)
        return f"{s.status} step {s.step} lease {s.lease} lock {s.lock}; {named}; stored {sorted(s.stored)}; {busy}"

    def broken(self, s: State) -> str:
        return MISSING if any(not names <= s.stored for _, names in s.names) else ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        if s.status == "queued" and not s.lock and len(s.attempts) < self.slots:
            yield self._claim(s)
        for a in s.attempts:
            yield from self._act(s, a)
        yield from self._fold(s)
        yield from self._operate(s)
        if s.faults:
            yield from self._break(s._replace(faults=s.faults - 1))

    def _claim(self, s: State) -> Move[State]:
        a = Attempt(lease=s.leases + 1, at="claimed", step=s.step)
        t = s._replace(status="running", lease=a.lease, leases=a.lease)
        return Move(f"claim: lease {a.lease}, step {a.step}", t._replace(attempts=(*s.attempts, a)))

    # ------------------------------------------------------------------------------------------------------- commit
    def _act(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        if a.at == "late":
            yield from self._claim_late(s, a)
        elif a.at == "kept" or not self.has("a value is stored before its checkpoint, or with it"):
            if s.lock in (0, a.lease):
                yield self._write(s, a)
        elif not s.lock:
            yield self._keep(s, a)

    def _keep(self, s: State, a: Attempt) -> Move[State]:
        new = frozenset(NAMES[a.step] - s.stored)
        does = f"keep: lease {a.lease}, {''.join(sorted(new)) or 'nothing new'}"
        if not self.has("a value is as durable as its checkpoint"):  # a statement of its own, which isn't flushed
            return Move(does, s.attempt(a, "kept")._replace(stored=s.stored | new, loose=s.loose | new))
        locked = a.lease if self.has("who stores a value has the head's lock") else 0
        return Move(does, s.attempt(a, "kept", new)._replace(lock=locked))

    def _write(self, s: State, a: Attempt) -> Move[State]:
        stored = s.stored | a.new
        if (s.status, s.lease) != ("running", a.lease):  # what it has kept stays
            return Move(f"refused: lease {a.lease} was lost", s.attempt(a, "late")._replace(stored=stored))
        status = "completed" if a.step + 1 == len(NAMES) else "queued"
        written = (*s.names, (a.step + 1, frozenset(NAMES[a.step])))
        t = s.attempt(a)._replace(status=status, step=a.step + 1, lease=0, names=written, stored=stored)
        return Move(
            f"{'complete' if status == 'completed' else 'commit'}: lease {a.lease}", t._replace(loose=frozenset())
        )

    def _claim_late(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        if (s.status, s.step) != ("queued", a.step):
            yield Move(f"too late: lease {a.lease}", s.attempt(a))
        elif not s.lock:
            at = "again" if self.has("a late commit stores its values again") else "kept"
            yield Move(f"late claim: lease {a.lease}", s.attempt(a, at)._replace(status="running", lease=a.lease))

    # --------------------------------------------------------------------------------------------------------- fold
    def _fold(self, s: State) -> Iterator[Move[State]]:
        if len(s.names) > 1 and s.status != "completed":
            yield Move(f"fold: the checkpoint of step {s.names[0][0]}", s._replace(names=s.names[1:]))
        busy = s.status == "running" and self.has("no value is swept while a step runs")
        if not (s.lock or busy or s.status == "completed"):
            named = s.names if self.has("only what no checkpoint names is swept") else s.names[-1:]
            left = frozenset[str]().union(*(names for _, names in named))
            yield Move("sweep values: those that nobody names", s._replace(stored=s.stored & left))

    # ------------------------------------------------------------------------------------------------------ operator
    def _operate(self, s: State) -> Iterator[Move[State]]:
        locks = self.has("a verb looks after it has the lock")
        if s.rewinds and s.looked is None and s.status == "queued" and not s.lock:
            for checkpoint in s.names[:-1]:
                at = s._replace(looked=checkpoint, lock=-1 if locks else 0)
                yield Move(f"look: at the checkpoint of step {checkpoint[0]}", at)
        if s.looked is not None and s.lock in (0, -1):
            step, names = s.looked
            back = s._replace(status="queued", step=step, lease=0, names=(*s.names, (step, names)))
            legal = s.status in ("queued", "running")
            done = back if legal else s
            yield Move("rewind: there", done._replace(looked=None, rewinds=s.rewinds - 1, lock=0))

    # ------------------------------------------------------------------------------------------------------- faults
    def _break(self, s: State) -> Iterator[Move[State]]:
        free = s._replace(status="queued", lease=0)
        if s.status == "running" and not s.lock:
            yield Move(f"taken for dead: lease {s.lease}, which goes on", free, fault=True)
        for a in s.attempts:
            gone = s.attempt(a)
            held = s.lease == a.lease and s.status == "running"
            yield Move(
                f"dies: lease {a.lease}, {a.at}", gone._replace(status="queued", lease=0) if held else gone, fault=True
            )
        if s.looked is None:
            t = s._replace(stored=s.stored - s.loose, loose=frozenset(), lock=0)
            durable = self.has("a value is as durable as its checkpoint")
            for a in s.attempts:  # the whole commit is tried again; two commits of which one is done are not
                t = t.attempt(a, "claimed") if a.at == "kept" and durable else t
            yield Move("database crashes: open transactions are gone", t, fault=True)
