"""A case fans out into children, and goes on when they have ended.

The list of items is checkpointed with the parent's own commit. Children are then made from it by a cursor, at most
`at_once` of them unfinished at a time, by whoever comes by: the worker after its commit, and the sweep. A child that
ends commits, and then, in a statement of its own, tries to join: that statement sees the children as they were when it
began, and the parent's row as it is when the lock is given. Whatever takes the parent away from its children notes in
the same transaction that they are left; they are cancelled afterwards, one by one, until none is left and the note
goes. Who looks when many end at once is `looks.py`'s. Bounds: `items`, one rewind or cancellation by an operator,
`faults`: failures of a child, results that don't fit, and deaths before a child joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.model.search import STUCK, Move, Real

EARLY = "a parent goes on although a branch hasn't ended"
TWICE = "a parent was joined twice"
NOT_AT_ONCE = "all branches have ended, the parent waits, and nobody is on the way"
TWO_FOR_ONE = "one item has two children"
CROWDED = "more children run than may"
LEFT_BEHIND = "a child runs on although its parent has left it, and nobody will cancel it"

RULES = {
    "a join is a statement after the child's commit": NOT_AT_ONCE,
    "a join counts the list, not the children made so far": EARLY,
    "a join is for its own visit": EARLY,
    "a join wants a waiting parent": TWICE,
    "the sweep joins": STUCK,
    "the sweep makes children": STUCK,
    "children are made under the parent's lock": CROWDED,
    "children are made while the parent waits": LEFT_BEHIND,
    "a parent that leaves its children notes it": LEFT_BEHIND,
    "the note stays until the last child is cancelled": LEFT_BEHIND,
    "the sweep cancels what was left": STUCK,
    "a failed branch ends its parent": STUCK,
}

TWO_BELTS = {("children are made under the parent's lock", "a child is known by its place"): TWO_FOR_ONE}
"""Of each pair the second is needed only where the first is missing."""

STANDS_FOR = {
    "fan out": Real("keepstep.checkpoint.sql.branches.COMMIT_FAN", move="fan_out"),
    "look": Real(),
    "make": Real("keepstep.checkpoint.branches.make"),
    "end": Real("keepstep.checkpoint.sql.hot.COMPLETE"),
    "begin": Real(),
    "try to join": Real("keepstep.checkpoint.sql.branches.WORTH_A_LOOK"),
    "join": Real("keepstep.checkpoint.sql.branches.JOIN", move="join"),
    "no join": Real("keepstep.checkpoint.joins.look"),
    "fail": Real("keepstep.checkpoint.sql.branches.JOIN_FAIL", move="join"),
    "sweep": Real("keepstep.workers.sweep.Sweep", move="join"),
    "unfit": Real("keepstep.checkpoint.sql.branches.UNFIT", move="unfit"),
    "retry": Real("keepstep.checkpoint.sql.branches.GATHER_AGAIN", move="retry"),
    "clear": Real("keepstep.checkpoint.sql.branches.CLEAR"),
    "cleared": Real("keepstep.checkpoint.sql.branches.CLEARED"),
    "gather": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "rewind": Real("keepstep.checkpoint.steering.rewind", move="rewind"),
    "cancel": Real("keepstep.checkpoint.steering.cancel", move="cancel"),
    "claim": Real("keepstep.checkpoint.sql.hot.CLAIM", move="claim"),
    "dies": Real(),
}


class Child(NamedTuple):
    """One branch. ended: ok, bad, cancelled. at: ended (it will try to join), saw ok, saw bad (what its try has seen),
    begun ok, begun (its commit, if that joins too, and what it has seen).
    """

    visit: int
    item: int
    twin: int = 0
    ended: str = ""
    at: str = ""


class State(NamedTuple):
    """All there is.

    visit: how often the parent has reached this step. makers: what each has seen of the cursor, -1 for nothing; the
    second is the sweep. joined: in this visit. left: visits whose children are to be cancelled. rest: the parent has
    gone on. orders, faults: that may still come.
    """

    status: str = "running"
    visit: int = 1
    cursor: int = 0
    children: tuple[Child, ...] = ()
    makers: tuple[int, ...] = (-1, -1)
    joined: int = 0
    left: tuple[int, ...] = ()
    rest: bool = False
    orders: int = 1
    faults: int = 0

    def child(self, child: Child, **changes: object) -> State:
        changed = child._replace(**changes)  # type: ignore[arg-type]
        return self._replace(children=tuple(sorted(changed if c == child else c for c in self.children)))

    def made(self, maker: int, seen: int) -> State:
        return self._replace(makers=tuple(seen if i == maker else at for i, at in enumerate(self.makers)))

    def of(self, visit: int) -> list[Child]:
        return [c for c in self.children if c.visit == visit]


@dataclass(frozen=True)
class Join:
    """The model. without: rules that are left out. on_error: fail, or collect."""

    without: frozenset[str] = frozenset()
    on_error: str = "collect"
    items: int = 3
    at_once: int = 2
    orders: int = 1
    faults: int = 1

    def has(self, rule: str) -> bool:
        """Whether the rule is still there."""
        return rule not in self.without

    def start(self) -> State:
        return State(orders=self.orders, faults=self.faults)

    def status(self, s: State) -> str:
        return s.status

    def show(self, s: State) -> str:
        children = ", ".join(f"{c.visit}.{c.item} {c.ended or 'runs'}{' ' + c.at if c.at else ''}" for c in s.children)
        return f"{s.status} visit {s.visit} cursor {s.cursor}; {children or 'no children'}; joined {s.joined}"

    def at_rest(self, s: State) -> bool:
        return not s.left and (s.rest or s.status in ("failed", "cancelled", "held"))

    def broken(self, s: State) -> str:
        now = s.of(s.visit)
        if s.joined > 1:
            return TWICE
        if len({c.item for c in now}) < len(now):
            return TWO_FOR_ONE
        if sum(not c.ended for c in now) > self.at_once:
            return CROWDED
        if any(not c.ended and c.visit not in s.left and not self._waits_for(s, c) for c in s.children):
            return LEFT_BEHIND
        whole = sum(bool(c.ended) for c in now) == self.items
        if s.joined and s.status != "failed" and not whole:
            return EARLY
        quiet = s.status == "waiting" and whole and all(not c.at for c in s.children) and s.faults == self.faults
        return NOT_AT_ONCE if quiet else ""

    def _waits_for(self, s: State, c: Child) -> bool:
        return s.status == "waiting" and c.visit == s.visit

    def moves(self, s: State) -> Iterator[Move[State]]:
        if s.status == "running" and not s.rest:
            yield Move("fan out: the list is checkpointed", s._replace(status="waiting", cursor=0, joined=0))
        if s.status == "queued":
            does = "gather: the results" if s.joined else "claim: the step that fans out"
            yield Move(does, s._replace(status="running", rest=s.joined > 0))
        for maker in range(len(s.makers)):
            yield from self._make(s, maker)
        for child in s.children:
            yield from self._run(s, child)
        if s.status == "waiting" and self.has("the sweep joins") and self._sees(s, s.visit):
            yield Move("sweep: joins", self._joined(s, s.visit, self._sees(s, s.visit)))
        if s.orders and not s.rest and s.status in ("waiting", "queued"):
            ordered = s._replace(orders=s.orders - 1)
            again = self._left(ordered, "queued")._replace(visit=s.visit + 1, cursor=0, joined=0)
            yield Move("rewind: by an operator, before the step that fans out", again, fault=True)
            yield Move("cancel: by an operator", self._left(ordered, "cancelled"), fault=True)
        if s.orders and s.status == "held":
            again = s._replace(status="waiting", orders=s.orders - 1)
            yield Move("retry: by an operator, the same results are gathered again", again, fault=True)
        yield from self._clear(s)

    def _clear(self, s: State) -> Iterator[Move[State]]:
        """Whoever ended the parent begins with it at once; the sweep goes on for certain."""
        lucky = not self.has("the sweep cancels what was left")
        for visit in s.left:
            alive = [c for c in s.of(visit) if not c.ended]
            for child in alive:
                yield Move(f"clear: {visit}.{child.item}", s.child(child, ended="cancelled", at=""), fault=lucky)
            if not alive or not self.has("the note stays until the last child is cancelled"):
                done = s._replace(left=tuple(v for v in s.left if v != visit))
                yield Move(f"cleared: visit {visit}", done, fault=lucky)

    # ------------------------------------------------------------------------------------------------------- makers
    def _make(self, s: State, maker: int) -> Iterator[Move[State]]:
        """Nobody can count on maker 0, the worker that has just committed; the sweep comes for certain."""
        seen, lucky = s.makers[maker], maker == 0
        waits = s.status == "waiting" or not self.has("children are made while the parent waits")
        if not lucky and not self.has("the sweep makes children"):
            return
        if seen >= 0:
            t = s.made(maker, -1)
            yield Move(f"make: item {seen}", self._with_child(t, seen) if waits else t, fault=lucky)
        elif waits and s.cursor < self.items and sum(not c.ended for c in s.of(s.visit)) < self.at_once:
            if self.has("children are made under the parent's lock"):
                yield Move(f"make: item {s.cursor}", self._with_child(s, s.cursor), fault=lucky)
            else:
                yield Move(f"look: there is room for item {s.cursor}", s.made(maker, s.cursor), fault=lucky)

    def _with_child(self, s: State, item: int) -> State:
        twins = sum(c.item == item for c in s.of(s.visit))
        if twins and self.has("a child is known by its place"):
            return s
        children = tuple(sorted((*s.children, Child(s.visit, item, twins))))
        return s._replace(children=children, cursor=max(s.cursor, item + 1))

    # ----------------------------------------------------------------------------------------------------- children
    def _run(self, s: State, c: Child) -> Iterator[Move[State]]:
        if not c.ended and not c.at:
            if self.has("a join is a statement after the child's commit"):
                yield Move(f"end: {c.visit}.{c.item}", s.child(c, ended="ok", at="ended"))
            else:
                last = self._sees(s.child(c, ended="ok"), c.visit)
                yield Move(f"begin: {c.visit}.{c.item} commits and joins", s.child(c, at=f"begun {last}"))
            if s.faults:
                bad = s._replace(faults=s.faults - 1).child(c, ended="bad", at="ended")
                yield Move(f"end: {c.visit}.{c.item}, failed", bad, fault=True)
        elif c.at.startswith("begun"):
            ended = s.child(c, ended="ok", at="")
            yield Move(f"end: {c.visit}.{c.item}", self._joined(ended, c.visit, c.at.removeprefix("begun ")))
        elif c.at == "ended":
            sees = self._sees(s, c.visit)
            yield Move(
                f"try to join: {c.visit}.{c.item} sees {sees or 'others run'}", s.child(c, at=sees and f"saw {sees}")
            )
            if s.faults:
                dead = s._replace(faults=s.faults - 1).child(c, at="")
                yield Move(f"dies: {c.visit}.{c.item}, before it joins", dead, fault=True)
        elif c.at:
            if s.faults and c.at == "saw ok" and s.status == "waiting" and c.visit == s.visit:
                held = s._replace(status="held", faults=s.faults - 1).child(c, at="")
                yield Move(f"unfit: the results that {c.visit}.{c.item} gathers", held, fault=True)
            t = self._joined(s.child(c, at=""), c.visit, c.at.removeprefix("saw "))
            does = "no join" if t.joined == s.joined and t.status == s.status else "join"
            yield Move(f"{'fail' if t.status == 'failed' != s.status else does}: by {c.visit}.{c.item}", t)

    def _sees(self, s: State, visit: int) -> str:
        """What a statement that begins now makes of the children of a visit."""
        children = s.of(visit)
        bad = self.on_error == "fail" and any(c.ended == "bad" for c in children)
        if bad:
            return "bad" if self.has("a failed branch ends its parent") else ""
        whole = len(children) == self.items or not self.has("a join counts the list, not the children made so far")
        return "ok" if whole and children and all(c.ended for c in children) else ""

    def _joined(self, s: State, visit: int, sees: str) -> State:
        """The same statement, once it has the parent's row."""
        waits = s.status == "waiting" or (s.joined > 0 and not self.has("a join wants a waiting parent"))
        mine = visit == s.visit or not self.has("a join is for its own visit")
        if not (waits and mine and sees):
            return s
        return self._left(s, "failed") if sees == "bad" else s._replace(status="queued", joined=s.joined + 1)

    def _left(self, s: State, status: str) -> State:
        """The parent goes elsewhere, or ends; its children are noted as left."""
        notes = self.has("a parent that leaves its children notes it") and s.status == "waiting"
        left = tuple(sorted({*s.left, s.visit})) if notes else s.left
        return s._replace(status=status, left=left)
