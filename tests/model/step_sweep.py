"""What mends a case's steps, and what breaks them: the sweep, the parent of a pool's child, and the faults.

`step.py` is the other half of this model. A head that is running although nobody executes it is *vacant*: after the
death of a pool's child (the node lives), of a whole node, or because a node forgot it (an orphan).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.search import STUCK, Move, Real
from tests.model.step_state import Attempt, State

FLOODED = "messages pile up"

RULES = {
    "the sweep rings what nobody claims": STUCK,
    "the sweep rings only where no message is": FLOODED,
    "the sweep recovers what a dead node ran": STUCK,
    "a node looks for what it runs and doesn't know": STUCK,
    "a step has a deadline": STUCK,
    "the sweep wakes sleepers": STUCK,
}

ONLY_FASTER = ("a parent releases its dead child's case", "a dead child's message comes back")

WORLD = (
    "hang",
    "hard limit",
    "child dies",
    "node dies",
    "broker is flushed",
    "message comes twice",
    "database crashes",
)

STANDS_FOR = {
    "release": Real("keepstep.workers.sweep.Sweep.release", move="recover"),
    "recover": Real("keepstep.checkpoint.sql.sweep.RECOVER_NODES", move="recover"),
    "audit": Real("keepstep.workers.sweep.Sweep._audit", move="recover"),
    "past its deadline": Real("keepstep.checkpoint.sql.sweep.RECOVER_OVERDUE", move="recover"),
    "taken for dead": Real("keepstep.workers.judge.Judge", move="recover"),
    "wake": Real("keepstep.checkpoint.sql.sweep.WAKE", move="wake"),
    "ring again": Real("keepstep.checkpoint.sql.sweep.RING_AGAIN"),
    **dict.fromkeys(WORLD, Real()),
}


@dataclass(frozen=True)
class Swept:
    """A model without some of its rules."""

    without: frozenset[str] = frozenset()

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def sweep(self, s: State) -> Iterator[Move[State]]:
        """All that a fair sweep does sooner or later."""
        head = s.head
        if head.status == "running":
            if s.vacant == "child" and self.has("a parent releases its dead child's case"):
                yield Move("release: its process died", _queued(s))
            if s.vacant == "node" and self.has("the sweep recovers what a dead node ran"):
                yield Move("recover: its node died", _queued(s))
            if s.vacant in ("child", "orphan") and self.has("a node looks for what it runs and doesn't know"):
                yield Move("audit: its node doesn't execute it", _queued(s))
            hung = any(a.lease == head.lease and a.at == "hung" for a in s.attempts)
            if hung and self.has("a step has a deadline"):
                yield Move("past its deadline: queued again", _queued(s))
        if head.status == "sleeping" and self.has("the sweep wakes sleepers"):
            yield Move("wake: the timer is over", s._replace(head=head._replace(status="queued")).rung(head.seq))
        waits_for_ever = head.status == "queued" and self.has("the sweep rings what nobody claims")
        if waits_for_ever and not (s.bell and self.has("the sweep rings only where no message is")):
            yield Move(f"ring again: seq {head.seq}", s.rung(head.seq))

    def end_hung(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        """A pool of processes kills what is far past its deadline; in a pool of threads it would keep its thread."""
        if self.has("a step has a deadline"):
            ended = s.attempt(a)._replace(vacant="child") if s.head.lease == a.lease else s.attempt(a)
            yield Move(f"hard limit: lease {a.lease} is killed", ended)

    def break_something(self, s: State) -> Iterator[Move[State]]:
        """The faults that don't kill a worker."""
        head = s.head
        if head.status == "running" and not s.vacant:
            yield Move(f"taken for dead: lease {head.lease}, which goes on", _queued(s.faulty()), fault=True)
        if s.bell:
            yield Move("broker is flushed", s.faulty()._replace(bell=()), fault=True)
        for seq in {max(head.seq - 1, 0), head.seq}:
            yield Move(f"message comes twice: seq {seq}", s.faulty().rung(seq), fault=True)
        if s.unflushed is not None:
            head, checkpoints = s.unflushed
            lost = s.faulty().flushed(head=head, checkpoints=checkpoints, losses=s.losses + 1, vacant="")
            yield Move("database crashes: what wasn't flushed is gone", lost, fault=True)

    def die(self, s: State, a: Attempt) -> Iterator[Move[State]]:
        """Kill the process that makes this attempt. Another one takes its place at once."""
        dead = s.faulty().attempt(a)
        held = s.head.lease == a.lease
        child = dead._replace(vacant="child") if held else dead
        if self.has("a dead child's message comes back"):
            yield Move(f"child dies: lease {a.lease}, {a.at}; its message comes back", child.rung(a.seq), fault=True)
        else:
            yield Move(f"child dies: lease {a.lease}, {a.at}", child, fault=True)
        node = dead._replace(vacant="node") if held else dead
        yield Move(f"node dies: lease {a.lease}, {a.at}; its message is lost", node, fault=True)


def _queued(s: State) -> State:
    """The attempt loses its lease, and a message is sent."""
    head = s.head._replace(status="queued", lease=0)
    return s.flushed(head=head, losses=s.losses + 1, vacant="").rung(head.seq)
