"""Two versions of the code at once, and what a waiting case is told meanwhile.

`signal`: code of version 1 has sent an answer before code of version 2 asked for it; the state is of version 2.
`results`: a case of version 1 has fanned out, and each of its branches ends under whichever code happens to run it.
Whoever ends a branch, or sends, looks whether the case can go on, unless it dies; so does the sweep of every node. Old
and new nodes come and go, also in a rollback; a new one comes back in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import STUCK, Move, Real

MIXED = "answers of two versions stand side by side in one state"
WRONG = "an answer is in a state of another version: it will be upcast twice, or never"

RULES = {
    "who can't tell leaves it to newer code": WRONG,
    "what was left is looked at again": STUCK,
}

ONLY_RESULTS = {
    "a result keeps its version": MIXED,
    "each result is upcast by itself": MIXED,
    "the state is upcast with them": WRONG,
}

STANDS_FOR = {
    "end": Real("keepstep.checkpoint.sql.hot.COMPLETE"),
    "dies": Real(),
    "deliver": Real("keepstep.checkpoint.waits.deliver_locked", move="deliver"),
    "join": Real("keepstep.checkpoint.gathered.taken", move="join"),
    "leave": Real("keepstep.checkpoint.sql.branches.LEAVE_TO_NEWER"),
    "comes": Real("keepstep.checkpoint.nodes.beat"),
    "goes": Real("keepstep.checkpoint.nodes.remove"),
}

OLD, NEW = 1, 2
CODES = {OLD: "old code", NEW: "new code"}


class State(NamedTuple):
    """All there is.

    version: of the state. answers: the version of each, 0 for a branch that runs. taken: their shapes in the state.
    looks: versions of those who have just ended a branch, or sent, and will look. due: whether a sweep will. alive:
    nodes with the old code, and with the new.
    """

    status: str = "waiting"
    version: int = OLD
    answers: tuple[int, ...] = (0, 0)
    taken: tuple[int, ...] = ()
    looks: tuple[int, ...] = ()
    due: bool = True
    alive: tuple[bool, bool] = (True, False)


@dataclass(frozen=True)
class Newer:
    """The model. what: signal, or results. without: rules that are left out."""

    what: str
    without: frozenset[str] = frozenset()

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        if self.what == "results":
            return State()
        return State(version=NEW, answers=(OLD,), looks=(NEW,), alive=(True, True))

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        alive = " and ".join(CODES[code] for code in self._living(s)) or "nobody"
        told = f"answers {s.answers}, taken as {s.taken}" if s.taken else f"answers {s.answers}"
        return f"{s.status} version {s.version}, {told}; {'due' if s.due else 'not due'}; alive: {alive}"

    def at_rest(self, s: State) -> bool:
        return s.status == "queued"

    def broken(self, s: State) -> str:
        if len(set(s.taken)) > 1:
            return MIXED
        return WRONG if s.taken and s.taken[0] != s.version else ""

    def moves(self, s: State) -> Iterator[Move[State]]:
        for number, version in enumerate(s.answers):
            for code in self._living(s) if not version else ():
                answers = (*s.answers[:number], code, *s.answers[number + 1 :])
                yield Move(
                    f"end: branch {number} by {CODES[code]}", s._replace(answers=answers, looks=(*s.looks, code))
                )
        for at, code in enumerate(s.looks):
            others = s._replace(looks=s.looks[:at] + s.looks[at + 1 :])
            yield self._look(others, code, "after its own end", fault=True)
            yield Move(f"dies: {CODES[code]}, before it looks", others, fault=True)
        for code in self._living(s) if s.due else ():
            yield self._look(s, code, "in its sweep", fault=False)
        yield Move("comes: a new node", s._replace(alive=(s.alive[0], True)))
        yield Move("comes: an old node", s._replace(alive=(True, s.alive[1])), fault=True)
        yield Move("goes: the old nodes", s._replace(alive=(False, s.alive[1])), fault=True)
        yield Move("goes: the new nodes", s._replace(alive=(s.alive[0], False)), fault=True)

    def _living(self, s: State) -> list[int]:
        return [code for code, lives in zip((OLD, NEW), s.alive, strict=True) if lives]

    def _look(self, s: State, code: int, when: str, *, fault: bool) -> Move[State]:
        says = s.answers if self.has("a result keeps its version") else tuple(min(v, OLD) for v in s.answers)
        if s.status != "waiting" or not all(s.answers):
            return Move(f"leave: nothing to do for {CODES[code]} {when}", s, fault)
        newest = max(s.version, *says)
        alike = all(version == s.version for version in says)
        can = code >= newest or alike
        if not can and self.has("who can't tell leaves it to newer code"):
            again = self.has("what was left is looked at again")
            return Move(f"leave: by {CODES[code]} {when}", s._replace(due=s.due and again), fault)
        does = "join" if self.what == "results" else "deliver"
        return Move(f"{does}: by {CODES[code]} {when}", self._taken(s, code, upcasts=can and not alike), fault)

    def _taken(self, s: State, code: int, *, upcasts: bool) -> State:
        if not upcasts:
            return s._replace(status="queued", taken=s.answers)
        each = self.has("each result is upcast by itself")
        shapes = (code,) * len(s.answers) if each else s.answers
        version = code if self.has("the state is upcast with them") else s.version
        return s._replace(status="queued", taken=shapes, version=version)
