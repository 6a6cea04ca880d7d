"""A case that waits, and those who send: statement by statement, as PostgreSQL runs them.

Transactions are READ COMMITTED: each statement sees what was committed when it began, but a statement that locks the
head's row reads that row as it is once the lock is given. So a statement that looks for signals and waits for the lock
at the same time sees signals from before the lock, and the row from after it: that is how a wake-up gets lost.

Four kinds. decision: one wait, and three people who decide differently, perhaps before it begins. votes: one wait for
the agreement of two people, of whom one says it twice, once they are asked. all: one wait for two signals. stream: two
`receive` in a row, and two messages, of which the first is sent twice under one dedupe key. Bounds: those senders, one
worker, and `faults` deaths of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import STUCK, Move, Real

NOT_AT_ONCE = "a signal lies there, the case waits for it, and nobody is on the way"
SILENT = "somebody was told that their signal counts, and it doesn't"
USED_TWICE = "one message was taken for two"
ONE_PERSON = "one person counted for two"
DISORDER = "a later message was taken first"

RULES = {
    "decision": {
        "a sender locks the head": NOT_AT_ONCE,
        "a sender looks after its lock": SILENT,
        "a sender delivers": NOT_AT_ONCE,
        "a worker that begins to wait delivers": NOT_AT_ONCE,
        "a worker that begins to wait looks after its commit": NOT_AT_ONCE,
        "the sweep delivers what a death left": STUCK,
        "the first decision stands": SILENT,
        "a signal is used by the checkpoint's transaction": STUCK,
    },
    "votes": {
        "a sender looks after its lock": STUCK,
        "votes are counted by person": ONE_PERSON,
    },
    "all": {
        "a sender looks after its lock": STUCK,
        "a worker that begins to wait delivers": NOT_AT_ONCE,
        "the sweep delivers what a death left": STUCK,
    },
    "stream": {
        "a dedupe key counts once": USED_TWICE,
        "the oldest message is taken first": DISORDER,
    },
}

STANDS_FOR = {
    "commit": Real("keepstep.checkpoint.sql.hot.COMMIT_WAIT", move="wait"),
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "deliver": Real("keepstep.checkpoint.sql.signals.DELIVER", move="deliver"),
    "send": Real("keepstep.checkpoint.signals.send", move="deliver"),
    "sweep": Real("keepstep.checkpoint.sql.sweep.UNDELIVERED", move="deliver"),
    "lock": Real("keepstep.checkpoint.sql.signals.LOCK_HEAD"),
    "begin": Real(),
    "dies": Real(),
}

SENDERS = {
    "decision": (("ann", "yes"), ("bob", "no"), ("cem", "perhaps")),
    "votes": (("ann", "yes"), ("bob", "yes"), ("ann", "yes")),
    "all": (("ann", "papers"), ("bob", "photo")),
    "stream": (("ann", "first"), ("bob", "second"), ("ann", "first")),
}


class Row(NamedTuple):
    """A row of `signals`, in the order of ids. state: new, counted (a vote), used, used twice."""

    by: str
    says: str
    state: str = "new"


Rows = tuple[Row, ...]
Seen = tuple[Row | None, ...]
"""The rows as a statement sees them; None for those that were committed after it began."""


class State(NamedTuple):
    """All there is.

    lock: the sender that holds the head's row, -1 for nobody. worker: begun, commit, deliver, half, idle, claim. told:
    what each sender was told, "" if nothing yet. seen: what a statement saw as it began, of each sender and, last, of
    the worker. waits: that are over.
    """

    status: str = "running"
    rows: Rows = ()
    lock: int = -1
    worker: str = "commit"
    told: tuple[str, ...] = ()
    seen: tuple[Rows | None, ...] = ()
    waits: int = 0
    faults: int = 0

    def tell(self, sender: int, what: str) -> State:
        """The sender's transaction is over."""
        return self._replace(told=tuple(what if i == sender else told for i, told in enumerate(self.told)), lock=-1)

    def see(self, who: int) -> State:
        """A statement has begun; it sees what is committed now."""
        return self._replace(seen=tuple(self.rows if i == who else seen for i, seen in enumerate(self.seen)))


@dataclass(frozen=True)
class Signals:
    """The model. without: rules that are left out."""

    kind: str
    without: frozenset[str] = frozenset()
    faults: int = 1

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    @property
    def waits(self) -> int:
        return 2 if self.kind == "stream" else 1

    def start(self) -> State:
        senders = len(SENDERS[self.kind])
        return State(told=("",) * senders, seen=(None,) * (senders + 1), faults=self.faults)

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        rows = ", ".join(f"{row.by} {row.says} {row.state}" for row in s.rows)
        return f"{s.status}; {rows or 'no signal'}; worker {s.worker}; told {s.told}; lock {s.lock}"

    def at_rest(self, s: State) -> bool:
        return s.waits == self.waits and all(s.told)

    def broken(self, s: State) -> str:
        states = [row.state for row in s.rows]
        used = [row for row in s.rows if row.state == "used"]
        if "used twice" in states or (self.kind == "stream" and len({row.says for row in used}) < len(used)):
            return USED_TWICE
        if self.kind == "stream" and "new" in states and "used" in states[states.index("new") :]:
            return DISORDER
        if self.kind == "votes" and s.waits and len({row.by for row in s.rows}) < 2:
            return ONE_PERSON
        if s.waits == self.waits and "new" in states:
            return SILENT
        quiet = s.lock == -1 and s.worker == "idle" and all(s.told) and s.faults == self.faults
        return NOT_AT_ONCE if quiet and s.status == "waiting" and "new" in states else ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        yield from self._work(s)
        for i, told in enumerate(s.told):
            if not told and (s.waits or s.status == "waiting" or self.kind != "votes"):
                yield from self._send(s, i)
        left = s.status == "waiting" and any(row.state == "new" for row in s.rows)
        if s.lock == -1 and left and self.has("the sweep delivers what a death left"):
            yield Move("sweep: delivers", self._delivered(s, s.rows))

    # --------------------------------------------------------------------------------------------------- the worker
    def _work(self, s: State) -> Iterator[Move[State]]:
        me, free = len(s.told), s.lock == -1
        match s.worker:
            case "commit" if not self.has("a worker that begins to wait looks after its commit"):
                yield Move("begin: the commit, which looks too", s.see(me)._replace(worker="begun"))
            case "begun" if free:
                yield Move(
                    "commit: waits", self._delivered(s._replace(status="waiting", worker="idle"), s.seen[me] or ())
                )
            case "commit" if free:
                delivers = self.has("a worker that begins to wait delivers")
                yield Move("commit: waits", s._replace(status="waiting", worker="deliver" if delivers else "idle"))
            case "deliver" if free and self.has("a signal is used by the checkpoint's transaction"):
                yield Move("deliver: what was there before", self._delivered(s._replace(worker="idle"), s.rows))
            case "deliver" if free:
                taken = self._delivered(s, s.rows)
                yield Move("deliver: the signal only", taken._replace(status=s.status, waits=s.waits, worker="half"))
            case "half" if free and s.status == "waiting" and any(row.state == "used" for row in s.rows):
                yield Move("deliver: the case", s._replace(status="queued", waits=s.waits + 1, worker="idle"))
            case "half" if free:
                yield Move("deliver: nothing", s._replace(worker="idle"))
            case "idle" if s.status == "queued" and s.waits < self.waits:
                yield Move("claim: the step before the next wait", s._replace(status="running", worker="commit"))
        if s.worker in ("deliver", "half") and s.faults:
            yield Move("dies: the worker", s._replace(worker="idle", faults=s.faults - 1), fault=True)

    def _delivered(self, s: State, seen: Seen) -> State:
        """What `deliver_locked` does, with the signals that are seen."""
        new = [at for at, row in enumerate(seen) if row and row.state == "new"]
        if s.status != "waiting" or not new:
            return s
        if self.kind == "all":
            rows = tuple(row._replace(state="used") if at in new else row for at, row in enumerate(s.rows))
            open_waits = 2 - sum(row is not None for row in seen)
            on = open_waits == 0
            return s._replace(rows=rows, status="queued" if on else "waiting", waits=s.waits + on)
        if self.kind != "votes":
            at = new[0] if self.has("the oldest message is taken first") else new[-1]
            used = s.rows[at]._replace(state="used twice" if s.rows[at].state == "used" else "used")
            return s._replace(rows=(*s.rows[:at], used, *s.rows[at + 1 :]), status="queued", waits=s.waits + 1)
        rows = tuple(row._replace(state="counted") if at in new else row for at, row in enumerate(s.rows))
        votes = [row.by for row in seen if row]
        agreed = len(set(votes) if self.has("votes are counted by person") else votes) >= 2
        return s._replace(rows=rows, status="queued" if agreed else "waiting", waits=s.waits + agreed)

    # --------------------------------------------------------------------------------------------------- the senders
    def _send(self, s: State, i: int) -> Iterator[Move[State]]:
        who, seen = SENDERS[self.kind][i][0], s.seen[i]
        if not self.has("a sender locks the head") and s.status != "waiting" and seen is None:
            yield Move(f"begin: {who} inserts", s.see(i))
        elif not self.has("a sender locks the head") and seen is not None:
            yield Move(f"send: {who}, committed", self._kept(s, i))
        elif not self.has("a sender looks after its lock") and seen is None:
            yield Move(f"begin: {who} looks, and waits for the lock", s.see(i))
        elif not self.has("a sender looks after its lock") and seen is not None and s.lock == -1:
            yield Move(f"send: {who}", self._sent(s, i, seen))
        elif s.lock == -1:
            yield Move(f"lock: {who}", s._replace(lock=i))
        elif s.lock == i:
            yield Move(f"send: {who}", self._sent(s, i, s.rows))

    def _sent(self, s: State, i: int, seen: Rows) -> State:
        by, says = SENDERS[self.kind][i]
        if self.has("a sender delivers"):
            s = self._delivered(s, seen)  # one before may be on its way
        if self.kind == "stream" and self.has("a dedupe key counts once") and any(row.says == says for row in seen):
            return s.tell(i, "repeated")
        if self.kind == "votes" and self.has("votes are counted by person") and any(row.by == by for row in seen):
            return s.tell(i, "repeated")
        if s.status == "waiting":
            kept = self._kept(s, i)
            unseen = (None,) * (len(s.rows) - len(seen))
            return self._delivered(kept, (*seen, *unseen, kept.rows[-1])) if self.has("a sender delivers") else kept
        if self.kind == "votes" or (self.kind == "decision" and seen and self.has("the first decision stands")):
            return s.tell(i, "already decided")
        return self._kept(s, i)

    def _kept(self, s: State, i: int) -> State:
        by, says = SENDERS[self.kind][i]
        return s._replace(rows=(*s.rows, Row(by, says))).tell(i, "it counts")
