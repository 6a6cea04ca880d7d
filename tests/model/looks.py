"""Who looks at a case that waits for branches, when many of them end at once.

Each branch that ends asks, without a lock, whether there is anything to do: others to begin, the join, a failure. If so
it looks: under a lock, at what is there then, and does what it saw by its commit. Only one looks at a time, and the
others don't wait: they leave it to whoever looks just now, which asks once more after its commit. The window of
`at_once` stays full, and the join is made at once, without the sweep's help; what deaths do is `join.py`'s. Bounds:
`items`, one branch that fails, one pause.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import Move, Real

NOT_AT_ONCE = "all branches have ended, the case waits, and nobody is on the way"
IDLE = "others could begin, and nobody is on the way"
UNHEARD = "a branch has failed, the case waits, and nobody is on the way"
CROWDED = "more branches run than may"

RULES = {
    "whoever looks asks again": NOT_AT_ONCE,
    "it asks again after its commit": IDLE,
    "a branch that failed waits for its look": UNHEARD,
    "whoever ends a pause looks": IDLE,
    "only one looks at a time": CROWDED,
}

STANDS_FOR = {
    "fan out": Real("keepstep.checkpoint.sql.branches.COMMIT_FAN", move="fan_out"),
    "end": Real("keepstep.checkpoint.sql.hot.COMPLETE"),
    "ask": Real("keepstep.checkpoint.sql.branches.WORTH_A_LOOK"),
    "leave it": Real("keepstep.checkpoint.sql.branches.LOCK_TO_LOOK"),
    "look": Real("keepstep.checkpoint.joins.look"),
    "ask too early": Real(),
    "make": Real("keepstep.checkpoint.branches.make"),
    "join": Real("keepstep.checkpoint.sql.branches.JOIN", move="join"),
    "fail": Real("keepstep.checkpoint.sql.branches.JOIN_FAIL", move="join"),
    "pause": Real("keepstep.checkpoint.steering.pause"),
    "resume": Real("keepstep.checkpoint.steering.resume"),
}


class Agent(NamedTuple):
    """Somebody on the way. at: asks, wants (leaves it, if somebody looks), waits (for the lock). failed: its branch."""

    at: str
    failed: bool = False


class Look(NamedTuple):
    """What somebody who has the lock has seen. room: for so many. asked: early, and whether it saw more to do."""

    room: int
    over: bool
    bad: bool
    paused: bool
    asked: bool | None = None


class State(NamedTuple):
    """All there is. branches: those begun so far: runs, ok, bad. looks: under the lock, one but for a mutation."""

    status: str = "running"
    branches: tuple[str, ...] = ()
    agents: tuple[Agent, ...] = ()
    looks: tuple[Look, ...] = ()
    paused: bool = False
    faults: int = 1
    orders: int = 1

    def with_agent(self, agent: Agent) -> State:
        return self._replace(agents=tuple(sorted((*self.agents, agent))))

    def without(self, agent: Agent) -> State:
        agents = list(self.agents)
        agents.remove(agent)
        return self._replace(agents=tuple(agents))

    @property
    def alive(self) -> int:
        return self.branches.count("runs")


@dataclass(frozen=True, kw_only=True)
class Looks:
    """The model. without: rules that are left out. on_error: fail, or collect."""

    without: frozenset[str] = frozenset()
    on_error: str = "fail"
    items: int = 4
    at_once: int = 2

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State()

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        agents = ", ".join(f"{'failed ' * a.failed}{a.at}" for a in s.agents) or "nobody"
        return f"{s.status}{' paused' * s.paused}: {' '.join(s.branches) or 'none'}; {agents}; {s.looks or 'no look'}"

    def at_rest(self, s: State) -> bool:
        return s.status in ("queued", "failed")

    def broken(self, s: State) -> str:
        if s.alive > self.at_once or len(s.branches) > self.items:
            return CROWDED
        if s.status != "waiting" or s.agents or s.looks or s.paused:
            return ""
        if self._bad(s):
            return UNHEARD
        if self._over(s):
            return NOT_AT_ONCE
        return IDLE if self._room(s) else ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        if s.status == "running":
            yield Move("fan out: the list", s._replace(status="waiting").with_agent(Agent("waits")))
        for number, branch in enumerate(s.branches):
            if branch == "runs":
                yield Move(f"end: {number}", self._ended(s, number, "ok"))
                if s.faults:
                    bad = self._ended(s._replace(faults=0), number, "bad")
                    yield Move(f"end: {number}, failed", bad, fault=True)
        for agent in sorted(set(s.agents)):
            yield from self._act(s, agent)
        for look in sorted(set(s.looks)):
            yield from self._finish(s, look)
        if s.status == "waiting" and not s.looks:  # they take the same lock
            if s.orders and not s.paused:
                yield Move("pause: by an operator", s._replace(paused=True, orders=0), fault=True)
            if s.paused:
                goes_on = s._replace(paused=False)
                looks = self.has("whoever ends a pause looks")
                yield Move("resume: by an operator", goes_on.with_agent(Agent("waits")) if looks else goes_on)

    def _ended(self, s: State, number: int, how: str) -> State:
        branches = (*s.branches[:number], how, *s.branches[number + 1 :])
        return s._replace(branches=branches).with_agent(Agent("asks", failed=how == "bad"))

    def _act(self, s: State, agent: Agent) -> Iterator[Move[State]]:
        if agent.at == "asks":
            failed = agent.failed and self.on_error == "fail"
            if not (failed or self._worth(s)):
                yield Move("ask: nothing to do", s.without(agent))
                return
            waits = failed and self.has("a branch that failed waits for its look")
            yield Move("ask: there is", s.without(agent).with_agent(Agent("waits" if waits else "wants")))
        elif not s.looks or not self.has("only one looks at a time"):
            seen = Look(room=self._room(s), over=self._over(s), bad=self._bad(s), paused=s.paused)
            yield Move("look: under the lock", s.without(agent)._replace(looks=tuple(sorted((*s.looks, seen)))))
        elif agent.at == "wants":
            yield Move("leave it: somebody looks", s.without(agent))

    def _finish(self, s: State, look: Look) -> Iterator[Move[State]]:
        """By its commit, whoever looked does what it saw, and lets others look."""
        looks = list(s.looks)
        looks.remove(look)
        t = s._replace(looks=tuple(looks))
        if s.status != "waiting":
            yield Move("look: the case has gone on", t)
        elif look.bad:
            yield Move("fail: the case", t._replace(status="failed"))
        elif look.over:
            yield Move("join: the case", t._replace(status="queued"))
        elif not self.has("it asks again after its commit") and look.asked is None:
            made = t._replace(branches=self._made(s, look))
            early = look._replace(asked=self._worth(made) and not look.paused)
            yield Move("ask too early: before the commit", t._replace(looks=tuple(sorted((*looks, early)))))
        else:
            made = t._replace(branches=self._made(s, look))
            asks = self.has("whoever looks asks again") and not look.paused and look.asked is not False
            yield Move(f"make: {look.room} more", made.with_agent(Agent("asks")) if asks else made)

    def _made(self, s: State, look: Look) -> tuple[str, ...]:
        return (*s.branches, *(["runs"] * (0 if look.paused else look.room)))

    def _worth(self, s: State) -> bool:
        return s.status == "waiting" and (self._over(s) or self._room(s) > 0)

    def _room(self, s: State) -> int:
        return max(0, min(self.items - len(s.branches), self.at_once - s.alive))

    def _over(self, s: State) -> bool:
        return len(s.branches) == self.items and not s.alive

    def _bad(self, s: State) -> bool:
        return self.on_error == "fail" and "bad" in s.branches
