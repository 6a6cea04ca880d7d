"""A wait's deadline against its signal.

A case asks, and asks again when nobody has answered in time; the second silence fails it. One person may answer, at any
time: before the case asks, or when it is too late. Two nodes sweep: each finds overdue waits in one statement, and acts
on them later, in a transaction. The worker that begins the wait may die before it looks for signals (`faults`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import STUCK, Move, Real

LOST = "an answer that was accepted loses to the deadline"
TWO_WAYS = "a wait was left in two ways"
TOO_EARLY = "a wait ended before its time"

RULES = {
    "signals are delivered before a deadline fires": LOST,
    "a deadline looks at the wait again": TOO_EARLY,
    "the sweep looks for deadlines": STUCK,
    "an answer after the deadline is told so": LOST,
}

TWO_BELTS = {("a deadline locks the head", "a deadline is guarded by seq and status"): TWO_WAYS}
"""Of each pair either is enough."""

STANDS_FOR = {
    "wait": Real("keepstep.checkpoint.sql.hot.COMMIT_WAIT", move="wait"),
    "deliver": Real("keepstep.checkpoint.waits.deliver", move="deliver"),
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "lock": Real("keepstep.checkpoint.sql.signals.LOCK_HEAD"),
    "answer": Real("keepstep.checkpoint.signals.send", move="deliver"),
    "find": Real("keepstep.checkpoint.sql.sweep.OVERDUE_WAITS"),
    "deliver instead": Real("keepstep.checkpoint.waits.expire", move="deliver"),
    "expire": Real("keepstep.checkpoint.sql.signals.EXPIRE", move="expire"),
    "fail": Real("keepstep.checkpoint.sql.signals.EXPIRE_FAIL", move="expire"),
    "leave it": Real("keepstep.checkpoint.waits.expire"),
    "time passes": Real(),
    "dies": Real(),
}


class State(NamedTuple):
    """All there is.

    wait: the number of the last wait, 0 before the first. left: how each one was. over: how many are past their time.
    lock: the person holds the head's row. worker: wait, deliver, idle. answer: new, used, late. sweeps: of each node,
    the wait that it has found overdue, and whether it has looked for signals without a lock; (0, False) if none.
    """

    status: str = "running"
    wait: int = 0
    left: tuple[str, ...] = ()
    over: int = 0
    lock: bool = False
    worker: str = "wait"
    answer: str = ""
    sweeps: tuple[tuple[int, bool], ...] = ((0, False), (0, False))
    faults: int = 0
    wrong: str = ""

    def leave(self, how: str, status: str) -> State:
        """The wait is over; at most once."""
        wrong = TWO_WAYS if len(self.left) >= self.wait else ""
        return self._replace(status=status, left=(*self.left, how), wrong=wrong)

    def decide(self) -> State:
        """Deliver the answer, if it is there and waited for."""
        if self.status != "waiting" or self.answer != "new":
            return self
        return self.leave("decided", "queued")._replace(answer="used")

    def swept(self, node: int, wait: int = 0, looked: bool = False) -> State:
        return self._replace(sweeps=tuple((wait, looked) if i == node else at for i, at in enumerate(self.sweeps)))


@dataclass(frozen=True)
class Deadline:
    """The model. without: rules that are left out."""

    without: frozenset[str] = frozenset()
    faults: int = 1

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State(faults=self.faults)

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        return (
            f"{s.status}, wait {s.wait}, left {s.left}, over {s.over}; worker {s.worker}; answer {s.answer or 'none'}"
        )

    def at_rest(self, s: State) -> bool:
        return s.status == "failed" or "decided" in s.left

    def broken(self, s: State) -> str:
        if s.wrong:
            return s.wrong
        return LOST if s.status == "failed" and s.answer == "new" else ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        yield from self._work(s)
        yield from self._answer(s)
        if s.over < s.wait:
            yield Move(f"time passes: wait {s.wait} is overdue", s._replace(over=s.wait))
        if self.has("the sweep looks for deadlines"):
            for node in (0, 1):
                yield from self._sweep(s, node)

    def _work(self, s: State) -> Iterator[Move[State]]:
        if s.worker == "wait" and not s.lock:
            yield Move("wait: asks", s._replace(status="waiting", wait=s.wait + 1, worker="deliver"))
        if s.worker == "deliver" and not s.lock:
            yield Move("deliver: what was there before", s.decide()._replace(worker="idle"))
        if s.worker == "deliver" and s.faults:
            yield Move("dies: the worker", s._replace(worker="idle", faults=s.faults - 1), fault=True)
        if s.worker == "idle" and s.status == "queued" and "decided" not in s.left and not s.lock:
            yield Move("claim: the step that asks again", s._replace(status="running", worker="wait"))

    def _answer(self, s: State) -> Iterator[Move[State]]:
        """Nobody can count on a person, so all that a person does is a fault."""
        if not s.answer and not s.lock:
            yield Move("lock: a person's answer", s._replace(lock=True), fault=True)
        if s.lock:
            late = s.status != "waiting" and s.wait > 0 and self.has("an answer after the deadline is told so")
            told = s._replace(lock=False, answer="late" if late else "new")
            yield Move(f"answer: {told.answer}", told.decide())

    def _sweep(self, s: State, node: int) -> Iterator[Move[State]]:
        found, looked = s.sweeps[node]
        if not found:
            if s.status == "waiting" and s.over == s.wait:
                yield Move(f"find: node {node}, wait {s.wait}", s.swept(node, s.wait))
        elif self.has("a deadline locks the head"):
            if not s.lock:
                yield self._expire(s.swept(node), s.wait)
        elif not looked:
            delivers = self.has("signals are delivered before a deadline fires")
            yield Move(f"deliver instead: node {node}", (s.decide() if delivers else s).swept(node, found, looked=True))
        else:
            yield self._expire(s.swept(node), found, look=False)

    def _expire(self, s: State, wait: int, *, look: bool = True) -> Move[State]:
        """Act on the wait that a node has seen, under the lock if it looks for signals first."""
        if look and self.has("signals are delivered before a deadline fires"):
            decided = s.decide()
            if decided != s:
                return Move("deliver instead: of the deadline", decided)
        moved = s.status != "waiting" or s.wait != wait
        if moved and (look or self.has("a deadline is guarded by seq and status")):
            return Move("leave it: the case has moved on", s)
        if s.over < s.wait and self.has("a deadline looks at the wait again"):
            return Move("leave it: the case asks again, and has time", s)
        t = s.leave("expired", "queued" if wait == 1 else "failed")
        wrong = TOO_EARLY if s.over < s.wait and not t.wrong else t.wrong
        return Move("expire: asks again" if wait == 1 else "fail: nobody answered", t._replace(wrong=wrong))
