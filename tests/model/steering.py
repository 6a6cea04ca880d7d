"""Operators against an attempt that runs, or comes late: cancel, pause, retry, skip, rewind, restart.

Two steps, retried in doubt. An attempt may be taken for dead and go on, hold its case, fail it, or lose the reply to
its claim. Operators may say anything at any time, as far as the table of moves allows it; before those verbs that put a
case elsewhere they look, and act later. A case that has ended may also be pruned, and its thread id started again.

Each arrival of the case at a step is a *visit*, numbered here and nowhere else: a retry stays within its visit, a
rewind to the same step begins another one. Seq, run and key have to get that right. Bounds: `faults`, `verbs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from keepstep.steps.moves import sources
from tests.model.search import Move, Real
from tests.model.steering_state import Attempt, State

ELSEWHERE = "a result was written in another visit than that of its call"
KEY_REUSED = "the outside takes a call for one of another visit"
TWO_KEYS = "one visit makes its call under two keys"
TERMINAL_LEFT = "a case left its end without an operator"
SURPRISE = "an operator moved a case that had moved on since they looked"
NOT_PAUSED = "a paused case was claimed"
DROPPED = "a delivery was dropped though its lease stands"
THROWN_AWAY = "a result was thrown away though nobody else has the step"

RULES = {
    "a late claim wants its seq": ELSEWHERE,
    "a late claim wants its run": ELSEWHERE,
    "a rewind takes a new seq": KEY_REUSED,
    "the key hangs on the run": KEY_REUSED,
    "a case that begins anew is a new run": KEY_REUSED,
    "a retry keeps its seq": TWO_KEYS,
    "an operator says what they saw": SURPRISE,
    "a paused case isn't claimed": NOT_PAUSED,
    "a repeated claim knows its lease, paused or not": DROPPED,
    "a late result comes home, paused or not": THROWN_AWAY,
}

TWO_BELTS = {("a verb clears the lease", "the fence wants a running head"): ELSEWHERE}
"""Of each pair either is enough."""

STANDS_FOR = {
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "drop": Real("keepstep.workers.execute.take"),
    "call": Real("keepstep.workers.call_step.call_step"),
    "commit": Real("keepstep.checkpoint.sql.hot.COMMIT", move="advance"),
    "complete": Real("keepstep.checkpoint.sql.hot.COMPLETE", move="complete"),
    "hold": Real("keepstep.checkpoint.sql.hot.SET_ASIDE", move="hold"),
    "fail": Real("keepstep.checkpoint.sql.hot.FAIL", move="fail"),
    "refused": Real("keepstep.workers.settle.settle"),
    "late claim": Real("keepstep.checkpoint.sql.hot.CLAIM_AGAIN", move="claim"),
    "too late": Real("keepstep.checkpoint.sql.hot.RECORD_LATE"),
    "taken for dead": Real("keepstep.checkpoint.sql.sweep.RECOVER_NODES", move="recover"),
    "cancel": Real("keepstep.checkpoint.steering.cancel", move="cancel"),
    "pause": Real("keepstep.checkpoint.steering.pause"),
    "resume": Real("keepstep.checkpoint.steering.resume"),
    "retry": Real("keepstep.checkpoint.steering.retry", move="retry"),
    "retry_anew": Real("keepstep.checkpoint.steering.retry_anew", move="retry_anew"),
    "skip": Real("keepstep.checkpoint.steering.skip", move="skip"),
    "rewind": Real("keepstep.checkpoint.steering.rewind", move="rewind"),
    "restart": Real("keepstep.checkpoint.steering.restart", move="restart"),
    "look": Real("keepstep.checkpoint.steered.Order"),
    "moved on": Real("keepstep.steps.errors.MovedOn"),
    "begin anew": Real("keepstep.checkpoint.sql.births.START"),
}

ENDED = ("completed", "failed", "cancelled")
STEPS = 2


@dataclass(frozen=True)
class Steering:
    """The model. without: rules that are left out."""

    without: frozenset[str] = frozenset()
    faults: int = 2
    verbs: int = 2

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State(faults=self.faults, verbs=self.verbs)

    def status(self, s: State) -> str:
        return s.head.status

    def at_rest(self, s: State) -> bool:
        return s.head.status in (*ENDED, "held")

    def show(self, s: State) -> str:
        busy = ", ".join(f"{a.at} {a.lease}" for a in s.attempts)
        head = s.head
        at = f"step {head.step} seq {head.seq} run {head.run} visit {head.visit}"
        return f"{head.status}{' paused' if head.paused else ''} {at} lease {head.lease}; {busy or 'idle'}; {s.order}"

    def broken(self, s: State) -> str:
        return s.wrong

    def moves(self, s: State) -> Iterator[Move[State]]:
        head = s.head
        may = not head.paused or not self.has("a paused case isn't claimed")
        if head.status == "queued" and may and len(s.attempts) < 2:
            yield from self._claim(s)
        for a in s.attempts:
            yield from self._act(s, a)
        if head.status == "running" and s.faults:
            yield Move(
                f"taken for dead: {head.lease}, which goes on", s.faulty().put(status="queued", lease=0), fault=True
            )
        yield from self._operate(s)

    # ------------------------------------------------------------------------------------------------------ workers
    def _claim(self, s: State) -> Iterator[Move[State]]:
        head = s.head
        a = Attempt(s.leases + 1, "claimed", head.seq, head.run, head.step, head.visit)
        t = s._replace(leases=a.lease, wrong=NOT_PAUSED if head.paused else "").put(status="running", lease=a.lease)
        yield Move(f"claim: {a.lease}", t.attempt(a, "claimed"))
        if s.faults:
            yield Move(f"claim: {a.lease}, the reply is lost", t.faulty().attempt(a, "asking"), fault=True)

    def _act(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        mine = s.head.status == "running" and s.head.lease == a.lease
        match a.at:
            case "asking":
                knows = not s.head.paused or self.has("a repeated claim knows its lease, paused or not")
                if mine and knows:
                    yield Move(f"claim: {a.lease}, once more", s.attempt(a, "claimed"))
                else:
                    yield Move(f"drop: {a.lease}", s.attempt(a)._replace(wrong=DROPPED if mine else ""))
            case "claimed":
                yield self._call(s, a)
            case "called" | "again":
                yield from self._commit(s, a)
            case "late":
                yield self._be_late(s, a)

    def _call(self, s: State, a: Attempt) -> Move[State]:
        key = (a.run if self.has("the key hangs on the run") else 0, a.seq)
        others = [(k, visit) for k, visit in s.effects if (k == key) != (visit == a.visit)]
        wrong = "" if not others else KEY_REUSED if others[0][0] == key else TWO_KEYS
        t = s._replace(effects=s.effects | {(key, a.visit)}, wrong=wrong)
        return Move(f"call: {a.lease}, step {a.step}", t.attempt(a, "called"))

    def _commit(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        head = s.head
        running = head.status == "running" or not self.has("the fence wants a running head")
        if not (running and head.lease == a.lease):
            at = "late" if a.at == "called" else ""
            yield Move(f"refused: {a.lease}" if at else f"too late: {a.lease}", s.attempt(a, at))
            return
        wrong = ELSEWHERE if head.visit != a.visit else TERMINAL_LEFT if head.status in ENDED else ""
        yield from self._end(s._replace(wrong=wrong).attempt(a), "commit", a)
        if s.faults:
            yield Move(f"hold: by {a.lease}", s.faulty().put(status="held", lease=0).attempt(a), fault=True)
            yield Move(f"fail: by {a.lease}", s.faulty().put(status="failed", lease=0).attempt(a), fault=True)

    def _end(self, s: State, does: str, a: Attempt) -> Iterator[Move[State]]:
        """The case goes on behind its step."""
        last = s.head.step + 1 == STEPS
        t = self._arrived(s, step=s.head.step + (not last), status="completed" if last else "queued", lease=0)
        yield Move(f"{'complete' if last else does}: {a.lease}", t)

    def _arrived(self, s: State, **changes: object) -> State:
        """At a step, for a visit of its own, by a new seq."""
        visit = s.visits + 1
        return s._replace(visits=visit).put(**{"seq": s.head.seq + 1, "visit": visit, **changes})

    def _be_late(self, s: State, a: Attempt) -> Move[State]:
        head = s.head
        here = head.seq == a.seq or not self.has("a late claim wants its seq")
        same_run = head.run == a.run or not self.has("a late claim wants its run")
        open_to_me = not head.paused or self.has("a late result comes home, paused or not")
        if here and same_run and open_to_me and head.status == "queued":
            return Move(f"late claim: {a.lease}", s.put(status="running", lease=a.lease).attempt(a, "again"))
        alone = head.visit == a.visit and head.status == "queued"
        return Move(f"too late: {a.lease}", s.attempt(a)._replace(wrong=THROWN_AWAY if alone else ""))

    # ---------------------------------------------------------------------------------------------------- operators
    def _operate(self, s: State) -> Iterator[Move[State]]:
        head = s.head
        if head.paused:
            yield Move("resume: by an operator", s.put(paused=False))
        if s.order is not None:
            yield self._obey(s._replace(order=None), *s.order)
        if not s.verbs:
            return
        t = s._replace(verbs=s.verbs - 1)
        freed = {"lease": 0} if self.has("a verb clears the lease") else {}
        if head.status in sources("cancel"):
            yield Move("cancel: by an operator", t.put(status="cancelled", **freed), fault=True)
        if head.status not in ENDED and not head.paused:
            yield Move("pause: by an operator", t.put(paused=True), fault=True)
        if head.status in sources("retry"):
            seq = head.seq if self.has("a retry keeps its seq") else head.seq + 1
            yield Move("retry: by an operator", t.put(status="queued", seq=seq), fault=True)
        if head.status in sources("retry_anew"):
            yield Move("retry_anew: by an operator", self._arrived(t, status="queued"), fault=True)
        if head.status in ENDED:
            run = head.run + self.has("a case that begins anew is a new run")
            anew = self._arrived(t, seq=0, run=run, step=0, status="queued", lease=0, paused=False)
            yield Move("begin anew: its thread id, after it was pruned", anew, fault=True)
        if s.order is None:
            for verb in ("skip", "rewind", "restart"):
                yield Move(f"look: an operator wants to {verb}", t._replace(order=(verb, head.seq)), fault=True)

    def _obey(self, s: State, verb: str, seen: int) -> Move[State]:
        """What an operator had in mind when the case was at `seen`."""
        head = s.head
        if (head.seq != seen and self.has("an operator says what they saw")) or head.status not in sources(verb):
            return Move(f"moved on: no {verb}", s)
        s = s._replace(wrong=SURPRISE if head.seq != seen else "")
        freed = {"lease": 0} if self.has("a verb clears the lease") else {}
        if verb == "skip":
            last = head.step + 1 == STEPS
            there = {"step": head.step + (not last), "status": "completed" if last else "queued"}
            return Move("skip: by an operator", self._arrived(s, **there, **freed))
        there = {"step": 0, "status": "queued", "run": head.run + (verb == "restart")}
        if verb == "rewind" and not self.has("a rewind takes a new seq"):
            there["seq"] = 0
        return Move(f"{verb}: by an operator", self._arrived(s, **there, **freed))
