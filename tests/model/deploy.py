"""Two versions of the code at once: a rolling deploy, in either direction.

A case of two steps. The old code knows only the first, and loads only states of version 1; the new code knows both, and
what it commits has version 2, unless `same_schema`. If `removed`, no code knows the second step any more. If
`tightened`, both know both steps and the schema stays, but in doubt the old code retries the second step, and the new
one holds it. If `replaced`, the new code has removed the second step and says that a third comes instead, which both
know; the old one may die in the second, after its call. Old and new workers come and go; a new one comes back in the
end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import STUCK, Move, Real

TOO_NEW = "old code has loaded a state of the new"
BURNT = "a try was burnt by a worker that doesn't know the step"
RUNG_FOR_NOBODY = "a case is rung that no living node can load"
HELD_AT_ONCE = "a case is held by the first worker that doesn't know its step"
CALLED_AGAIN = "a step is called again in doubt, although the code that called it says that it must not be"
SHARED_KEY = "two different steps have called outside under one key"
HELD_THOUGH_KNOWN = "a case is held for a step that a living node knows"

RULES = {
    "a claim refuses what is newer": TOO_NEW,
    "a commit says its version": TOO_NEW,
    "what no node can load isn't rung": RUNG_FOR_NOBODY,
    "an unknown step is put off": BURNT,
    "an unknown step is put off for a while": HELD_AT_ONCE,
    "a step is held only if it exists nowhere": HELD_THOUGH_KNOWN,
    "the sweep rings what a new node can load": STUCK,
}

ONLY_REMOVED = {"a step that nobody knows is held in the end": STUCK}
ONLY_TIGHTENED = {"who claims says what to do in doubt": CALLED_AGAIN}
ONLY_REPLACED = {"a removed step is left by a checkpoint": SHARED_KEY}

GRACE = 3
"""How often an unknown step is put off, at least."""

STANDS_FOR = {
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "drop": Real("keepstep.workers.execute.take"),
    "commit": Real("keepstep.checkpoint.sql.hot.COMMIT", move="advance"),
    "complete": Real("keepstep.checkpoint.sql.hot.COMPLETE", move="complete"),
    "defer": Real("keepstep.workers.execute._unknown_step", move="defer"),
    "hold": Real("keepstep.workers.execute._unknown_step", move="hold"),
    "pass over": Real("keepstep.steps.decide.passed_over", move="advance"),
    "recover": Real("keepstep.checkpoint.sql.sweep.RECOVER_EXECUTOR", move="recover"),
    "wake": Real("keepstep.checkpoint.sql.sweep.WAKE", move="wake"),
    "ring again": Real("keepstep.checkpoint.sql.sweep.RING_AGAIN"),
    "comes": Real("keepstep.checkpoint.nodes.beat"),
    "goes": Real("keepstep.checkpoint.nodes.remove"),
    "message is lost": Real(),
}


class State(NamedTuple):
    """All there is.

    version: of the stored state. policy: what the head says of its step. by: whose code runs the step. called: whose
    code has called the second one. rung: a message is there. alive: nodes with the old code, and with the new.
    """

    status: str = "queued"
    step: int = 1
    version: int = 1
    policy: str = "retry"
    by: str = ""
    called: str = ""
    rung: bool = True
    alive: tuple[bool, bool] = (True, False)
    deferrals: int = 0
    failures: int = 0
    wrong: str = ""


@dataclass(frozen=True)
class Deploy:
    """The model. without: rules that are left out."""

    without: frozenset[str] = frozenset()
    same_schema: bool = False
    removed: bool = False
    tightened: bool = False
    replaced: bool = False

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State()

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        alive = " and ".join(code for code, lives in zip(("old", "new"), s.alive, strict=True) if lives)
        return f"{s.status} step {s.step} version {s.version} {s.by}; {'rung' if s.rung else 'silent'}; alive: {alive}"

    def at_rest(self, s: State) -> bool:
        return s.status == "held" or (s.status == "completed" and not self.removed)

    def broken(self, s: State) -> str:
        return s.wrong or (BURNT if s.failures else "")

    def _loads(self, code: str, s: State) -> bool:
        return code == "new" or s.version == 1 or self.tightened

    def _knows(self, code: str, s: State) -> bool:
        return s.step == 1 or (code == "new" and not self.removed) or self.tightened or self.replaced

    def moves(self, s: State) -> Iterator[Move[State]]:
        living = [code for code, lives in zip(("old", "new"), s.alive, strict=True) if lives]
        for code in living:
            if s.rung:
                yield self._receive(s._replace(rung=False), code)
        if s.status == "running":
            yield self._run(s)
            if self.tightened and s.step == 2 and not s.called:
                held = s.policy == "hold"
                dead = s._replace(status="held" if held else "queued", by="", called=s.by, rung=not held)
                yield Move(f"recover: by the policy {s.policy}", dead, fault=True)
            if self.replaced and s.step == 2 and s.by == "old":
                yield Move("recover: after its call", s._replace(status="queued", by="", called="old"), fault=True)
        if s.status == "sleeping":
            yield Move("wake: the time is over", s._replace(status="queued", rung=True))
        yield from self._ring_again(s, living)
        yield Move("comes: a new node", s._replace(alive=(s.alive[0], True)))
        yield Move("comes: an old node", s._replace(alive=(True, s.alive[1])), fault=True)
        if s.status != "running":
            yield Move("goes: the old nodes", s._replace(alive=(False, s.alive[1])), fault=True)
            yield Move("goes: the new nodes", s._replace(alive=(s.alive[0], False)), fault=True)
        if s.rung:
            yield Move("message is lost", s._replace(rung=False), fault=True)

    def _ring_again(self, s: State, living: list[str]) -> Iterator[Move[State]]:
        if s.status != "queued" or s.rung or not living:
            return
        some = any(self._loads(code, s) for code in living)
        if some and self.has("the sweep rings what a new node can load"):
            yield Move("ring again: somebody can load it", s._replace(rung=True))
        if not some and not self.has("what no node can load isn't rung"):
            yield Move("ring again: for nobody", s._replace(rung=True, wrong=RUNG_FOR_NOBODY))

    def _receive(self, s: State, code: str) -> Move[State]:
        if s.status != "queued" or not (self._loads(code, s) or not self.has("a claim refuses what is newer")):
            return Move(f"drop: {code} code", s)
        # what a state says of its version, and what it really has, differ only if a commit lied
        really = s.version if self.has("a commit says its version") else 2 if s.step == 2 else 1
        wrong = TOO_NEW if code == "old" and really == 2 and not (self.same_schema or self.tightened) else ""
        says = self.tightened and code == "new" and self.has("who claims says what to do in doubt")
        policy = "hold" if says and s.step == 2 else s.policy
        again = s.called == "new"
        claimed = s._replace(status="running", by=code, policy=policy, wrong=CALLED_AGAIN if again else wrong)
        return Move(f"claim: {code} code", claimed)

    def _run(self, s: State) -> Move[State]:
        code = s.by
        if not self._knows(code, s):
            return self._put_off(s._replace(by=""))
        if self.replaced and s.step == 2:
            return self._replaced_step(s, code)
        if s.step == (3 if self.replaced else 2):
            return Move(f"complete: {code} code", s._replace(status="completed", by=""))
        says = self.has("a commit says its version") and not (self.same_schema or self.tightened)
        version = 2 if code == "new" and says else s.version
        policy = "hold" if code == "new" and self.tightened else "retry"
        there = s._replace(status="queued", step=2, version=version, policy=policy, by="", rung=True)
        return Move(f"commit: {code} code", there)

    def _replaced_step(self, s: State, code: str) -> Move[State]:
        there = s._replace(status="queued", step=3, by="", rung=True)
        if code == "old":
            return Move("commit: old code", there._replace(called="old"))
        if self.has("a removed step is left by a checkpoint"):
            return Move("pass over: new code", there._replace(version=2))
        wrong = SHARED_KEY if s.called else ""
        return Move(
            "complete: the third step in place of the second", s._replace(status="completed", by="", wrong=wrong)
        )

    def _put_off(self, s: State) -> Move[State]:
        if not self.has("an unknown step is put off"):
            return Move("defer: as if it had raised", s._replace(status="sleeping", failures=s.failures + 1))
        somebody = s.alive[1] and not self.removed
        over = s.deferrals == GRACE or not self.has("an unknown step is put off for a while")
        nowhere = not somebody or not self.has("a step is held only if it exists nowhere")
        if over and nowhere and self.has("a step that nobody knows is held in the end"):
            wrong = HELD_THOUGH_KNOWN if somebody else HELD_AT_ONCE if s.deferrals == 0 else ""
            return Move("hold: no code knows the step", s._replace(status="held", wrong=wrong))
        return Move("defer: to whoever knows it", s._replace(status="sleeping", deferrals=min(s.deferrals + 1, GRACE)))
