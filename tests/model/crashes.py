"""What counts against a step, and what doesn't.

One step, which does as its kind says each time it is called: well (it returns), raises, hangs (until its deadline),
kills (its own process), or drowns (its whole node). Meanwhile whole nodes die, and workers end in order, through no
fault of the step. Raised errors, deaths of the process and deaths of the node are counted apart, each up to a limit of
its own. Bounds: `deploys` deaths of a node from outside, one retry by an operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import STUCK, Move, Real

INNOCENT = "a step is held for deaths that aren't its own"
TOO_FEW = "a step is held before it had its tries"
NOT_OBEYED = "an operator's retry came to nothing before the step was called"

BEFORE = "tries are counted before the call too"

RULES = {
    "well": {
        "a node's death is not its process's": INNOCENT,
        "who ends in order counts on nobody": INNOCENT,
    },
    "raises": {
        "tries have a limit": STUCK,
        "a death is no try": TOO_FEW,
        "an operator's retry counts anew": NOT_OBEYED,
    },
    "hangs": {
        "tries have a limit": STUCK,
        BEFORE: STUCK,
    },
    "kills": {
        "deaths of its process have a limit": STUCK,
        "deaths are counted with the case, not with the message": STUCK,
        "an operator's retry counts anew": TOO_FEW,
    },
    "drowns": {
        "deaths of its node have a limit": STUCK,
    },
}

TRIES = DEATHS = 2
NODE_DEATHS = 4
"""Higher than the number of deploys, and lower than for ever."""

STANDS_FOR = {
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "exhausted": Real("keepstep.steps.decide.exhausted", move="hold"),
    "complete": Real("keepstep.checkpoint.sql.hot.COMPLETE", move="complete"),
    "back off": Real("keepstep.steps.decide.back_off", move="back_off"),
    "hold": Real("keepstep.steps.decide.hold", move="hold"),
    "wake": Real("keepstep.checkpoint.sql.sweep.WAKE", move="wake"),
    "past its deadline": Real("keepstep.checkpoint.recovery.recover_overdue", move="recover"),
    "its process dies": Real("keepstep.checkpoint.sql.sweep.RECOVER_EXECUTOR", move="recover"),
    "its node dies": Real("keepstep.checkpoint.sql.sweep.RECOVER_NODES", move="recover"),
    "ends in order": Real("keepstep.checkpoint.recovery.release_node", move="recover"),
    "retry": Real("keepstep.checkpoint.sql.steering.RETRY", move="retry"),
}


class State(NamedTuple):
    """All there is.

    failures, crashes, node_deaths: the head's counters. raised, died: how often the step really has, since the last
    retry by an operator. deploys, orders: that may still come.
    """

    status: str = "queued"
    failures: int = 0
    crashes: int = 0
    node_deaths: int = 0
    raised: int = 0
    died: int = 0
    deploys: int = 0
    orders: int = 1


@dataclass(frozen=True)
class Crashes:
    """The model. without: rules that are left out."""

    kind: str
    without: frozenset[str] = frozenset()
    deploys: int = 3

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State(deploys=self.deploys)

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        counted = f"failures {s.failures}, crashes {s.crashes}, node deaths {s.node_deaths}"
        return f"{s.status}; {counted}; raised {s.raised}, died {s.died}"

    def at_rest(self, s: State) -> bool:
        return s.status in ("completed", "held")

    def broken(self, s: State) -> str:
        if s.status != "held":
            return ""
        match self.kind:
            case "well":
                return INNOCENT
            case "raises" | "hangs":
                return NOT_OBEYED if s.raised == 0 else TOO_FEW if s.raised < TRIES else ""
            case "kills":
                return TOO_FEW if s.died < DEATHS else ""
            case _:
                return ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        if s.status == "queued":
            yield Move("claim: its step", s._replace(status="running"))
        if s.status == "sleeping":
            yield Move("wake: the time is over", s._replace(status="queued"))
        if s.status == "running":
            over = s.failures == TRIES and self.has("tries have a limit") and self.has(BEFORE)
            yield Move("exhausted: it isn't called any more", s._replace(status="held")) if over else self._call(s)
        if s.status == "running" and s.deploys:
            yield from self._deploy(s._replace(deploys=s.deploys - 1))
        if s.status == "held" and s.orders:
            anew = s._replace(status="queued", raised=0, died=0, orders=s.orders - 1)
            if self.has("an operator's retry counts anew"):
                anew = anew._replace(failures=0, crashes=0, node_deaths=0)
            yield Move("retry: by an operator", anew, fault=True)

    def _call(self, s: State) -> Move[State]:
        match self.kind:
            case "well":
                return Move("complete: it returned", s._replace(status="completed"))
            case "hangs":
                return Move("past its deadline: queued again", self._failed(s)._replace(status="queued"))
            case "raises":
                t = self._failed(s)
                over = t.failures == TRIES and self.has("tries have a limit")
                does = "hold: its tries ran out" if over else "back off: it raised"
                return Move(does, t._replace(status="held" if over else "sleeping"))
            case "kills":
                return self._died(s._replace(died=min(s.died + 1, DEATHS)))
            case _:
                return self._node_died(s)

    def _failed(self, s: State) -> State:
        return s._replace(failures=min(s.failures + 1, TRIES), raised=min(s.raised + 1, TRIES))

    def _deploy(self, s: State) -> Iterator[Move[State]]:
        if self.has("a node's death is not its process's"):
            yield self._node_died(s)._replace(fault=True)
        else:
            yield self._died(s)._replace(fault=True)
        if self.has("who ends in order counts on nobody"):
            yield Move("ends in order: its worker", s._replace(status="queued"), fault=True)
        else:
            yield self._died(s)._replace(fault=True)

    def _died(self, s: State) -> Move[State]:
        crashes = (
            min(s.crashes + 1, DEATHS) if self.has("deaths are counted with the case, not with the message") else 1
        )
        over = crashes == DEATHS and self.has("deaths of its process have a limit")
        return Move("its process dies", s._replace(status="held" if over else "queued", crashes=crashes))

    def _node_died(self, s: State) -> Move[State]:
        deaths = min(s.node_deaths + 1, NODE_DEATHS)
        over = deaths == NODE_DEATHS and self.has("deaths of its node have a limit")
        failures = s.failures if self.has("a death is no try") else min(s.failures + 1, TRIES)
        moved = s._replace(status="held" if over else "queued", node_deaths=deaths, failures=failures)
        return Move("its node dies", moved)
