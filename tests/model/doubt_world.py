"""What happens to a call in doubt without a worker's doing: the outside, the sweep, the operators, and the faults.

`doubt.py` is the other half of this model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.doubt_state import Attempt, State
from tests.model.search import Move, Real

STANDS_FOR = {
    "recover": Real("keepstep.checkpoint.sql.sweep.RECOVER_NODES", move="recover"),
    "taken for dead": Real("keepstep.workers.judge.Judge", move="recover"),
    "wake": Real("keepstep.checkpoint.sql.sweep.WAKE", move="wake"),
    "retry": Real("keepstep.checkpoint.sql.steering.RETRY", move="retry"),
    "rewind": Real("keepstep.checkpoint.steering.rewind", move="rewind"),
    "skip": Real("keepstep.checkpoint.steering.skip", move="skip"),
    "cancel": Real("keepstep.checkpoint.steering.cancel", move="cancel"),
    "pause": Real("keepstep.checkpoint.sql.steering.PAUSE"),
    "resume": Real("keepstep.checkpoint.sql.steering.RESUME"),
    **dict.fromkeys(("lands", "is lost", "raises", "is interrupted", "dies", "database crashes"), Real()),
}


@dataclass(frozen=True)
class World:
    """A policy, without some of its rules. dedupes: the outside API knows keys."""

    policy: str
    without: frozenset[str] = frozenset()
    dedupes: bool = False

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def send(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        """The attempt's call is under way."""
        landed = s.landed(a.seq, dedupes=self.dedupes)
        yield Move(f"lands: the call of {a.lease}, and it is told", landed.attempt(a, "called"))
        if s.faults:
            yield Move(f"raises: {a.lease}, its call has landed", landed.faulty().attempt(a, "raised"), fault=True)
            yield Move(f"raises: {a.lease}, its call never left", s.faulty().attempt(a, "raised"), fault=True)
            alone = s.faulty().drifting(a.seq)
            yield Move(f"raises: {a.lease}, its call goes on", alone.attempt(a, "raised"), fault=True)
            yield Move(f"is interrupted: {a.lease}, its call goes on", alone.attempt(a, "interrupted"), fault=True)

    def drift(self, s: State) -> Iterator[Move[State]]:
        """Calls that were left alone."""
        for seq in set(s.adrift):
            at = s.adrift.index(seq)
            rest = s._replace(adrift=s.adrift[:at] + s.adrift[at + 1 :])
            yield Move(f"lands: a call of seq {seq}", rest.landed(seq, dedupes=self.dedupes))
            yield Move(f"is lost: a call of seq {seq}", rest)

    def die(self, s: State, a: Attempt) -> Move[State]:
        """Kill the process of an attempt."""
        left = s.faulty().attempt(a)._replace(vacant=s.vacant or s.head.lease == a.lease)
        return Move(f"dies: {a.lease}, {a.at}", left.drifting(a.seq) if a.at == "sending" else left, fault=True)

    def sweep(self, s: State) -> Iterator[Move[State]]:
        """Recover what the dead were running, sooner or later; and what the living are, by mistake."""
        head = s.head
        if head.status == "running" and s.vacant:
            yield Move("recover: its process is gone", self._recovered(s, certain=True))
        elif head.status == "running" and s.faults:
            certain = not self.has("silence is no proof of death")
            yield Move(
                f"taken for dead: {head.lease}, which goes on", self._recovered(s.faulty(), certain=certain), fault=True
            )
        settled = head.seq not in s.adrift or not self.has("an outside system gets time to settle")
        if head.status == "sleeping" and not head.paused and (settled or head.doubt == 0):
            yield Move("wake: the time is over", s.put(status="queued"))
        if s.faults and s.unflushed is not None:
            lost = s.faulty()._replace(head=s.unflushed, unflushed=None, vacant=False)
            yield Move("database crashes: the claim is gone", lost, fault=True)

    def _recovered(self, s: State, *, certain: bool) -> State:
        """A running head whose doubt is set was being verified, and will be again."""
        head = s.head
        if self.policy == "retry" or not self.has("recovery asks the policy"):
            return s.put(status="queued", lease=0)
        if head.doubt:
            doubt = head.doubt if self.has("a dead verifier leaves the doubt") else 0
            return s.put(status="queued", lease=0, doubt=doubt)
        sleeps = self.policy == "verify" and certain
        return s.put(status="sleeping" if sleeps else "held", lease=0, doubt=head.lease)

    def operate(self, s: State) -> Iterator[Move[State]]:
        """Whatever an operator may say. Nobody counts on it."""
        head = s.head
        if head.paused:
            yield Move("resume: by an operator", s._replace(head=head._replace(paused=False)))
        if not s.decisions or head.status in ("completed", "cancelled"):
            return
        decided = s._replace(decisions=s.decisions - 1)
        end = decided.put(status="completed", lease=0, doubt=0, seq=head.seq + 1)
        yield Move("skip: by an operator", end, fault=True)
        yield Move("cancel: by an operator", decided.put(status="cancelled", lease=0, doubt=0), fault=True)
        if not head.paused:
            yield Move("pause: by an operator", decided._replace(head=head._replace(paused=True)), fault=True)
        if head.status == "held":
            doubt = 0 if self.has("an operator's retry ends the doubt") else head.doubt
            yield Move("retry: by an operator", s.allowing(head.seq).put(status="queued", doubt=doubt), fault=True)
        if head.seq == 0:
            doubt = 0 if self.has("a rewind ends the doubt") else head.doubt
            again = decided._replace(decided=s.leases).put(seq=1, status="queued", lease=0, doubt=doubt)
            yield Move("rewind: by an operator", again, fault=True)
