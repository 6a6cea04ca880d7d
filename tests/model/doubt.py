"""Calls whose outcome nobody knows, and what the policies retry, hold and verify do about them.

One step. The outside API makes an effect of each call that reaches it, unless it `dedupes` by key. A call may outlive
its attempt: when the process is killed, or stops waiting, the call is *adrift* until it lands or is lost. The settling
time is taken to be longer than that. What no time outlasts is a call that a living attempt has yet to make, which is
why mere silence is no reason to verify. `verify` sees what has landed so far, unless it never `knows`, or it `lies`.

A process dies, falls silent and goes on later; a call raises; the database crashes. Lost replies are in `step.py`, but
for that of the late claim. `doubt_state.py` has the state, `doubt_world.py` what isn't a worker's doing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model import doubt_world
from tests.model.doubt_state import Attempt, State
from tests.model.search import Move, Real

TWICE = "a step took effect more often than operators have said that it may"
ELSEWHERE = "a result was written at another seq than that of its step"
THROWN_AWAY = "a result was thrown away that nobody else has"
SETTLED_BY_ANOTHER = "a person was asked about one attempt, and another one's result was taken for the answer"
OVERRULED = "an operator had decided, and the old doubt was looked at again"

HOLD = {
    "recovery asks the policy": TWICE,
    "an exception leaves the call in doubt": TWICE,
    "a claim is flushed": TWICE,
    "a late result settles its own doubt": THROWN_AWAY,
    "a late result settles no other doubt": SETTLED_BY_ANOTHER,
    "a late result stays at its seq": ELSEWHERE,
    "a repeated late claim knows its lease": THROWN_AWAY,
}

RULES = {
    "hold": {
        **HOLD,
        "a settled doubt is over": TWICE,
        "an operator's retry ends the doubt": TWICE,
        "a rewind ends the doubt": TWICE,
    },
    "verify": {
        **HOLD,
        "silence is no proof of death": TWICE,
        "an outside system gets time to settle": TWICE,
        "verify runs instead of the step": TWICE,
        "a dead verifier leaves the doubt": TWICE,
        "not to know is no answer": TWICE,
        "a verify that raises is no answer": TWICE,
        "what verify says is fenced": TWICE,
        "a late not-done takes nothing": TWICE,
        "an operator's retry ends the doubt": OVERRULED,
        "a rewind ends the doubt": OVERRULED,
    },
}

STANDS_FOR = {
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "call": Real("keepstep.workers.call_step.call_step"),
    "look": Real("keepstep.steps.doubt.verified"),
    "commit": Real("keepstep.checkpoint.sql.hot.COMPLETE", move="complete"),
    "back off": Real("keepstep.checkpoint.sql.hot.SET_ASIDE", move="back_off"),
    "doubt": Real("keepstep.checkpoint.sql.hot.SET_ASIDE", move="doubt"),
    "hold": Real("keepstep.checkpoint.sql.hot.SET_ASIDE", move="hold"),
    "refused": Real("keepstep.workers.settle.settle"),
    "resolve": Real("keepstep.checkpoint.sql.hot.CLAIM_AGAIN", move="resolve"),
    "late claim": Real("keepstep.checkpoint.sql.hot.CLAIM_AGAIN", move="claim"),
    "too late": Real("keepstep.checkpoint.sql.hot.RECORD_LATE"),
    **doubt_world.STANDS_FOR,
}


@dataclass(frozen=True)
class Doubt(doubt_world.World):
    """The model. faults, decisions: of operators, that may come."""

    knows: bool = True
    lies: bool = False
    faults: int = 3
    decisions: int = 2

    def start(self) -> State:
        return State(faults=self.faults, decisions=self.decisions)

    def status(self, s: State) -> str:
        return s.head.status

    def at_rest(self, s: State) -> bool:
        """A held case is at rest: it says all that anybody can know."""
        return s.head.status in ("completed", "cancelled", "held")

    def show(self, s: State) -> str:
        busy = ", ".join(f"{a.at} {a.lease}" for a in s.attempts)
        head = f"{s.head.status} lease {s.head.lease} doubt {s.head.doubt}"
        return f"{head}; {busy or 'idle'}; effects {s.effects} of {s.allowed}, adrift {s.adrift}"

    def broken(self, s: State) -> str:
        twice = any(effects > allowed for effects, allowed in zip(s.effects, s.allowed, strict=True))
        return s.wrong or (TWICE if twice else "")

    def moves(self, s: State) -> Iterator[Move[State]]:
        if len(s.attempts) < 2 and s.head.status == "queued" and not s.head.paused:
            yield self._claim(s)
        for a in s.attempts:
            yield from self._act(s, a)
            if s.faults:
                yield self.die(s, a)
        yield from self.drift(s)
        yield from self.sweep(s)
        yield from self.operate(s)

    def _claim(self, s: State) -> Move[State]:
        a = Attempt(lease=s.leases + 1, at="claimed", seq=s.head.seq)
        verifies = self.policy == "verify" and s.head.doubt > 0 and self.has("verify runs instead of the step")
        overruled = verifies and s.head.doubt <= s.decided
        t = s._replace(leases=a.lease, wrong=OVERRULED if overruled else "").put(status="running", lease=a.lease)
        if self.policy == "retry" or not self.has("a claim is flushed"):
            t = t._replace(unflushed=s.unflushed or s.head)
        return Move(f"claim: lease {a.lease}", t.attempt(a, "looking" if verifies else "claimed"))

    def _act(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        match a.at:
            case "claimed":
                yield Move(f"call: {a.lease}", s.attempt(a, "sending"))
            case "sending":
                yield from self.send(s, a)
            case "looking":
                yield from self._look(s, a)
            case "called" | "done" | "again":
                yield self._commit(s, a)
            case "late":
                yield from self._be_late(s, a)
            case _:
                yield self._set_aside(s, a)

    def _look(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        if self.knows:
            told = "done" if s.effects[a.seq] and not self.lies else "not done"
            yield Move(f"look: {a.lease} is told {told}", s.attempt(a, told))
        yield Move(f"look: {a.lease} is told unknown", s.attempt(a, "unknown"))
        if s.faults:
            yield Move(f"look: {a.lease} fails", s.faulty().attempt(a, "failed"), fault=True)

    def _commit(self, s: State, a: Attempt) -> Move[State]:
        if s.head.status == "running" and s.head.lease == a.lease:
            t = s._replace(wrong="" if a.seq == s.head.seq else ELSEWHERE)
            return Move(f"commit: {a.lease}", t.put(status="completed", lease=0, doubt=0).attempt(a))
        if a.at == "again":
            return Move(f"too late: {a.lease}", s.attempt(a))
        return Move(f"refused: {a.lease}", s.attempt(a, "late"))

    def _set_aside(self, s: State, a: Attempt) -> Move[State]:
        """End the attempt without a checkpoint."""
        ended = s.attempt(a)
        if not (s.head.status == "running" and s.head.lease == a.lease):
            if a.at == "not done" and not self.has("what verify says is fenced"):
                return Move(f"back off: {a.lease}, not done", ended.put(status="sleeping", lease=0, doubt=0))
            queued = s.head.seq == a.seq and s.head.status == "queued"
            if a.at == "not done" and queued and not self.has("a late not-done takes nothing"):
                return Move(f"late claim: {a.lease}, not done", ended.put(status="queued", doubt=0))
            return Move(f"too late: {a.lease} {a.at}", ended)
        match a.at:
            case "unknown" if self.has("not to know is no answer"):
                return Move(f"hold: {a.lease} unknown", ended.put(status="held", lease=0))
            case "failed" if self.has("a verify that raises is no answer"):
                return Move(f"back off: {a.lease} failed", ended.put(status="sleeping", lease=0))
            case "not done" | "unknown" | "failed":
                return Move(f"back off: {a.lease} {a.at}", ended.put(status="sleeping", lease=0, doubt=0))
            case _ if self.policy == "retry" or not self.has("an exception leaves the call in doubt"):
                return Move(f"back off: {a.lease} {a.at}", ended.put(status="sleeping", lease=0))
            case "raised" if self.policy == "verify":
                return Move(f"doubt: {a.lease} raised", ended.put(status="sleeping", lease=0, doubt=a.lease))
            case _:
                return Move(f"hold: {a.lease} {a.at}", ended.put(status="held", lease=0, doubt=a.lease))

    def _be_late(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        """Take the case again if it is in doubt about this very attempt, or queued and in no doubt."""
        head = s.head
        here = head.seq == a.seq or not self.has("a late result stays at its seq")
        own = head.doubt == a.lease or (head.doubt > 0 and not self.has("a late result settles no other doubt"))
        resolves = (
            own and head.status in ("held", "sleeping", "queued") and self.has("a late result settles its own doubt")
        )
        claims = head.status == "queued" and head.doubt == 0
        mine = head.status == "running" and head.lease == a.lease
        if here and (resolves or claims or (mine and self.has("a repeated late claim knows its lease"))):
            wrong = SETTLED_BY_ANOTHER if head.status == "held" and head.doubt != a.lease else ""
            doubt = 0 if self.has("a settled doubt is over") else head.doubt
            t = s._replace(decided=min(s.decided, a.lease - 1), wrong=wrong)  # what becomes of it is a new question
            t = t.put(status="running", lease=a.lease, doubt=doubt)
            does = "resolve" if resolves else "late claim"
            yield Move(f"{does}: {a.lease}", t.attempt(a, "again"))
            if s.faults:
                yield Move(f"{does}: {a.lease}, the reply is lost", t.faulty(), fault=True)
            return
        alone = mine or (head.seq == a.seq and head.doubt == a.lease)
        yield Move(f"too late: {a.lease}", s.attempt(a)._replace(wrong=THROWN_AWAY if alone else ""))
