"""One case's steps, from message to message: claim, call, commit, publish. `step_sweep.py` is the other half.

Bounds: `steps` steps (with `timer`, the first one ends in a sleep), `slots` deliveries in hand at once, `faults` faults
of any kind. The outside API tells calls apart by their key. The policy is "retry", so claims aren't flushed.

A worker is known by its lease. One that was taken for dead goes on as if nothing had happened, at any pace: so a
process that is stopped, slow or cut off needs no state of its own. A statement and the look for what it left behind
(`LANDED`) count as one; a lost reply, and a death on either side of each action, are faults like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model import step_sweep
from tests.model.search import Move, Real
from tests.model.step_state import Attempt, Checkpoint, Head, State

ELSEWHERE = "a result was written at another seq than that of its step"
OTHERS_LEASE = "a result was written under somebody else's lease"
STOLEN = "a lease was taken from an attempt that nobody has given up"
DROPPED = "a delivery was dropped though its lease stands"
THROWN_AWAY = "a result was thrown away though nobody else has the step"
LATE_THOUGH_LANDED = "an attempt was taken for late though what it said was done"
AHEAD = "a message names a checkpoint that doesn't exist"
TWICE = "a step took effect twice outside"
NEEDLESS = "a step was called again though no attempt was lost"

RULES = {
    "a claim wants a queued head": STOLEN,
    "a claim wants the seq of its message": ELSEWHERE,
    "a repeated claim knows its lease": DROPPED,
    "the fence is the lease, not the attempt's number": ELSEWHERE,
    "the fence is the lease, not only the seq": OTHERS_LEASE,
    "a repeated commit looks whether it landed": LATE_THOUGH_LANDED,
    "a repeated back-off looks whether it was done": LATE_THOUGH_LANDED,
    "a commit is flushed": AHEAD,
    "publish after the commit": AHEAD,
    "all attempts use one key": TWICE,
    "a late result takes its case again": THROWN_AWAY,
    "a late claim wants its seq": ELSEWHERE,
    "a late claim wants a queued head": STOLEN,
    "a repeated late claim knows its lease": THROWN_AWAY,
    **step_sweep.RULES,
}

STANDS_FOR = {
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "give up": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "drop": Real("keepstep.workers.execute.take"),
    "call": Real("keepstep.workers.call_step.call_step"),
    "commit": Real("keepstep.checkpoint.sql.hot.COMMIT", move="advance"),
    "commit and sleep": Real("keepstep.checkpoint.sql.hot.COMMIT", move="sleep"),
    "complete": Real("keepstep.checkpoint.sql.hot.COMPLETE", move="complete"),
    "landed": Real("keepstep.checkpoint.sql.hot.LANDED"),
    "refused": Real("keepstep.workers.settle.settle"),
    "back off": Real("keepstep.checkpoint.sql.hot.SET_ASIDE", move="back_off"),
    "late claim": Real("keepstep.checkpoint.sql.hot.CLAIM_AGAIN", move="claim"),
    "too late": Real("keepstep.checkpoint.sql.hot.RECORD_LATE"),
    "publish": Real("keepstep.workers.publish.Bell.ring"),
    **step_sweep.STANDS_FOR,
}


@dataclass(frozen=True)
class Step(step_sweep.Swept):
    """The model. without: rules that are left out."""

    steps: int = 2
    slots: int = 2
    faults: int = 2
    timer: bool = False

    def start(self) -> State:
        return State(calls=(0,) * self.steps, faults=self.faults)

    def at_rest(self, s: State) -> bool:
        return s.head.status == "completed"

    def status(self, s: State) -> str:
        return s.head.status

    def show(self, s: State) -> str:
        busy = ", ".join(f"{a.at} {a.lease}" for a in s.attempts)
        return f"{s.head.status} seq {s.head.seq} lease {s.head.lease}; {busy or 'idle'}; messages {s.bell}"

    def broken(self, s: State) -> str:
        ahead = max((*s.bell, *(a.seq + 1 for a in s.attempts if a.at == "publishing")), default=0)
        called = sum(calls > 0 for calls in s.calls)
        if s.wrong:
            return s.wrong
        if ahead > s.head.seq:
            return AHEAD
        if len({seq for seq, _ in s.effects}) < len(s.effects):
            return TWICE
        if sum(s.calls) > called + s.losses:
            return NEEDLESS
        return step_sweep.FLOODED if len(s.bell) > 3 + self.faults - s.faults else ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        if len(s.attempts) < self.slots:
            for at, seq in enumerate(s.bell):
                if seq not in s.bell[:at]:
                    yield from self._receive(s._replace(bell=s.bell[:at] + s.bell[at + 1 :]), seq)
        for a in s.attempts:
            yield from self._act(s, a)
            if s.faults:
                yield from self.die(s, a)
        yield from self.sweep(s)
        if s.faults:
            yield from self.break_something(s)

    def _act(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        """What the attempt does next."""
        match a.at:
            case "asking":
                return self._claim(s, a)
            case "claimed":
                return self._call(s, a)
            case "called" | "again":
                return self._commit(s, a)
            case "raised":
                return self._back_off(s, a)
            case "late":
                return self._claim_late(s, a)
            case "publishing":
                return iter([Move(f"publish: seq {a.seq + 1}", s.attempt(a).rung(a.seq + 1))])
            case _:
                return self.end_hung(s, a)

    # -------------------------------------------------------------------------------------------------------- claim
    def _receive(self, s: State, seq: int) -> Iterator[Move[State]]:
        a = Attempt(lease=s.leases + 1, at="asking", seq=seq, number=s.head.number + 1)
        return self._claim(s._replace(leases=a.lease), a)

    def _claim(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        head, mine = s.head, s.head.status == "running" and s.head.lease == a.lease
        free = head.status == "queued" or (head.status == "running" and not self.has("a claim wants a queued head"))
        here = head.seq == a.seq or not self.has("a claim wants the seq of its message")
        if not (here and (free or (mine and self.has("a repeated claim knows its lease")))):
            yield Move(f"drop: lease {a.lease}", s.attempt(a)._replace(wrong=DROPPED if mine else ""))
            return
        wrong = STOLEN if head.status == "running" and not mine else ""
        taken = head._replace(status="running", lease=a.lease, number=head.number + (not mine))
        unflushed = s.unflushed or (head, s.checkpoints)
        t = s._replace(head=taken, unflushed=unflushed, wrong=wrong)
        yield Move(f"claim: lease {a.lease}, seq {head.seq}", t.attempt(a, "claimed"))
        if s.faults:
            yield Move(f"claim: lease {a.lease}, the reply is lost", t.faulty().attempt(a, "asking"), fault=True)
            orphan = t.faulty().attempt(a)._replace(vacant="orphan")
            yield Move(f"give up: claim of lease {a.lease}, its reply is lost", orphan, fault=True)

    # --------------------------------------------------------------------------------------------------------- call
    def _call(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        if s.faults:
            yield Move(f"hang: lease {a.lease} never comes back", s.faulty().attempt(a, "hung"), fault=True)
        key = (a.seq, 0 if self.has("all attempts use one key") else a.lease)
        calls = tuple(n + (seq == a.seq) for seq, n in enumerate(s.calls))
        t = s._replace(calls=calls, effects=s.effects | {key})
        yield Move(f"call: lease {a.lease}, step {a.seq}", t.attempt(a, "called"))
        if s.faults:
            yield Move(f"call: lease {a.lease}, raises", t.faulty().attempt(a, "raised"), fault=True)
        if not self.has("publish after the commit") and a.seq + 1 < self.steps:
            yield Move(f"publish: seq {a.seq + 1}, too early", t.rung(a.seq + 1).attempt(a, "called"))

    # ------------------------------------------------------------------------------------------------------- commit
    def _fenced(self, s: State, a: Attempt) -> bool:
        head = s.head
        if not self.has("the fence is the lease, not the attempt's number"):
            return head.status == "running" and head.number == a.number
        if not self.has("the fence is the lease, not only the seq"):
            return head.status == "running" and head.seq == a.seq
        return head.status == "running" and head.lease == a.lease

    def _commit(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        if self._fenced(s, a):
            yield from self._write(s, a)
        elif s.checkpoints[a.seq : a.seq + 1] == (Checkpoint(a.seq, a.lease),) and self.has(
            "a repeated commit looks whether it landed"
        ):
            rings = s.head.seq == a.seq + 1 < self.steps and not (self.timer and a.seq == 0)
            yield Move(f"landed: lease {a.lease}, the checkpoint is there", s.attempt(a, "publishing" if rings else ""))
        elif a.at == "called":
            yield Move(f"refused: lease {a.lease} was lost", s.attempt(a, "late"))
        else:
            yield Move(f"too late: lease {a.lease}", s.attempt(a))

    def _write(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        head, seq = s.head, s.head.seq + 1
        wrong = ELSEWHERE if head.seq != a.seq else OTHERS_LEASE if head.lease != a.lease else ""
        status = "completed" if seq == self.steps else "sleeping" if self.timer and seq == 1 else "queued"
        does = {"completed": "complete", "sleeping": "commit and sleep", "queued": "commit"}[status]
        written = (*s.checkpoints, Checkpoint(a.seq, a.lease))
        t = s.flushed(head=Head(seq=seq, status=status), checkpoints=written, vacant="", wrong=wrong)
        if not self.has("a commit is flushed"):
            t = t._replace(unflushed=s.unflushed or (head, s.checkpoints))
        yield Move(f"{does}: lease {a.lease} as {seq}", t.attempt(a, "publishing" if status == "queued" else ""))
        if s.faults:
            yield Move(f"{does}: lease {a.lease} as {seq}, the reply is lost", t.faulty().attempt(a, a.at), fault=True)

    def _back_off(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        if self._fenced(s, a):
            asleep = s.head._replace(status="sleeping", lease=0)
            t = s.flushed(head=asleep, losses=s.losses + 1)
            yield Move(f"back off: lease {a.lease}", t.attempt(a))
            if s.faults:
                t = t.faulty()._replace(set_aside=s.set_aside | {a.lease})
                yield Move(f"back off: lease {a.lease}, the reply is lost", t, fault=True)
        elif a.lease in s.set_aside and self.has("a repeated back-off looks whether it was done"):
            yield Move(
                f"landed: lease {a.lease} was set aside", s.attempt(a)._replace(set_aside=s.set_aside - {a.lease})
            )
        else:
            wrong = LATE_THOUGH_LANDED if a.lease in s.set_aside else ""
            yield Move(f"too late: lease {a.lease} raised", s.attempt(a)._replace(wrong=wrong))

    def _claim_late(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        head, mine = s.head, s.head.status == "running" and s.head.lease == a.lease
        wanted = ("queued",) if self.has("a late claim wants a queued head") else ("queued", "running")
        free = head.status in wanted and self.has("a late result takes its case again")
        here = head.seq == a.seq or not self.has("a late claim wants its seq")
        if here and (free or (mine and self.has("a repeated late claim knows its lease"))):
            taken = head._replace(status="running", lease=a.lease, number=head.number + (not mine))
            t = s.flushed(head=taken, vacant="", wrong=STOLEN if head.status == "running" and not mine else "")
            yield Move(f"late claim: lease {a.lease}", t.attempt(a, "again"))
            if s.faults:
                yield Move(f"late claim: lease {a.lease}, the reply is lost", t.faulty().attempt(a, "late"), fault=True)
            return
        landed = any(checkpoint.lease == a.lease for checkpoint in s.checkpoints)
        thrown_away = mine or (head.status == "queued" and head.seq == a.seq)
        wrong = LATE_THOUGH_LANDED if landed else THROWN_AWAY if thrown_away else ""
        yield Move(f"too late: lease {a.lease}", s.attempt(a)._replace(wrong=wrong))
