"""The end of a branch against whatever else may happen to its parent, each really blocked on a lock of the other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import branches as branch_rows
from keepstep.checkpoint import joins
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Delivery
from keepstep.checkpoint.sql import branches as sql
from keepstep.steps.errors import MovedOn, NotCancellable
from keepstep.steps.keys import case_id
from keepstep.testing.bell import QueueBell
from keepstep.workers import branches
from keepstep.workers.engine import Engine
from keepstep.workers.execute import execute
from tests import branch_flows
from tests.support.eventually import eventually
from tests.support.stages import while_locked

WF = "fanning"
PARENT = case_id(WF, "A")
LOCK = f"select 1 from keepstep.heads where id = '{PARENT}' for update"
BLOCKED = sa.text(
    "select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
)


@dataclass
class Stage:
    """A case A that waits for branches which run at the test's word."""

    client: Client
    db: Database
    engine: Engine

    def fan_out(self, *does: str, **how: Any) -> None:
        items = [{"n": n, "does": what} for n, what in enumerate(does)]
        self.client.start(WF, "A", {"over": items, "how": how})
        self.run(PARENT)
        assert self.standing()[0] == "waiting"

    def run(self, case: Any, seq: int = 0) -> list[Any]:
        return execute(self.engine, Delivery(case=case, seq=seq))

    def end(self, number: int) -> list[Any]:
        """A branch runs, ends, and follows it up, as a worker would."""
        return self.run(self.branch(number))

    @staticmethod
    def branch(number: int) -> Any:
        return case_id(f"{WF}.branches", f"A/work#1[{number}]")

    def standing(self) -> tuple[str, int]:
        case = self.client.get(WF, "A")
        return str(case.status), case.seq

    def fates(self) -> list[str | None]:
        return [row.fate for row in self.db.all(sa.text("select fate from keepstep.fans order by case_id, seq"))]

    def kinds(self) -> Counter[str]:
        return Counter(event.kind for event in self.client.history(WF, "A"))

    def statuses(self) -> list[str | None]:
        return [leaf.status for leaf in self.client.branches(WF, "A", seq=1)]


@pytest.fixture
def stage(database_url: str, broker_url: str, db: Database) -> Iterator[Stage]:
    with Client(database_url, broker_url, workflows=branch_flows.ALL) as client:
        client._bell = QueueBell()
        yield Stage(client, db, Engine(settings=client.settings, db=db, registry=client.registry, bell=client._bell))


@contextmanager
def held(db: Database, lock: str) -> Iterator[None]:
    """Somebody else's transaction has these rows."""
    with db.engine.connect() as other:
        other = other.execution_options(isolation_level="READ COMMITTED")
        with other.begin() as transaction:
            other.execute(sa.text(lock))
            yield
            transaction.rollback()


def begun(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def blocked(db: Database, number: int) -> None:
    eventually(lambda: db.all(BLOCKED)[0].n == number, message=f"{number} really block")


# ---------------------------------------------------------------------------------- the last branch against a verb
ACTS: dict[str, Callable[[Stage], Any]] = {
    "end": lambda s: s.end(1),
    "cancel": lambda s: s.client.cancel(WF, "A"),
    "rewind": lambda s: s.client.rewind(WF, "A", to=0, repeat_effects=True),
    "restart": lambda s: s.client.restart(WF, "A", repeat_effects=True),
    "skip": lambda s: s.client.skip(WF, "A", update={"results": []}),
    "pause": lambda s: s.client.pause(WF, "A"),
    "look": lambda s: branches.look(s.engine, PARENT),
}

PAIRS = [
    # what branch 1 does, the first act, the second, how the case stands then, what became of the fan-out
    ("double", "end", "cancel", ("cancelled", 2), "joined"),
    ("double", "cancel", "end", ("cancelled", 1), "left"),
    ("double", "end", "rewind", ("queued", 2), "joined"),
    ("double", "rewind", "end", ("queued", 2), "left"),
    ("double", "end", "restart", ("queued", 2), "joined"),
    ("double", "restart", "end", ("queued", 2), "left"),
    ("double", "end", "skip", ("queued", 2), "joined"),
    ("double", "skip", "end", ("queued", 2), "left"),
    ("double", "end", "pause", ("queued", 2), "joined"),
    ("double", "pause", "end", ("queued", 2), "joined"),
    ("double", "end", "look", ("queued", 2), "joined"),
    ("double", "look", "end", ("queued", 2), "joined"),
    ("fail", "end", "cancel", ("failed", 1), "failed"),
    ("fail", "cancel", "end", ("cancelled", 1), "left"),
    ("fail", "end", "rewind", ("failed", 1), "failed"),
    ("fail", "rewind", "end", ("queued", 2), "left"),
    ("fail", "end", "look", ("failed", 1), "failed"),
    ("fail", "look", "end", ("failed", 1), "failed"),
]


@pytest.mark.parametrize(("does", "first", "second", "then", "fate"), PAIRS, ids=lambda v: str(v).replace(" ", ""))
def test_the_end_of_the_last_branch_and_another_act_come_one_after_the_other(
    stage: Stage, does: str, first: str, second: str, then: tuple[str, int], fate: str
) -> None:
    stage.fan_out("double", does)
    stage.end(0)
    results = while_locked(stage.db, [lambda: ACTS[first](stage), lambda: ACTS[second](stage)], LOCK)
    refused = {type(r) for r in results if isinstance(r, Exception)}
    assert refused <= {MovedOn, NotCancellable}, results
    assert stage.standing() == then, results
    assert stage.fates() == [fate]
    assert stage.kinds()["join"] == (fate == "joined")
    assert stage.statuses() == ["completed", "failed" if does == "fail" else "completed"]


# ------------------------------------------------------------------------------------------------ two branches at once
def test_two_branches_that_end_at_once_join_once_and_the_second_waits_for_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have committed before either asks, so both see that all have ended."""
    stage.fan_out("double", "double")
    both = threading.Barrier(2)
    monkeypatch.setattr(
        "keepstep.workers.execute.reach", lambda point, *_: both.wait(10) if point == "committed" else None
    )
    with held(stage.db, LOCK):
        threads = [begun(lambda n=number: stage.end(n)) for number in (0, 1)]
        blocked(stage.db, 1)
        eventually(lambda: sum(thread.is_alive() for thread in threads) == 1, message="the other left it to the first")
    for thread in threads:
        thread.join(10)
    assert stage.standing() == ("queued", 2)
    assert stage.kinds()["join"] == 1


def test_two_branches_that_fail_at_once_fail_the_case_once_with_the_first_of_the_list(stage: Stage) -> None:
    stage.fan_out("fail", "fail", "ask")
    while_locked(stage.db, [lambda: stage.end(1), lambda: stage.end(0)], LOCK)
    assert stage.client.get(WF, "A").error["message"] == "branch A/work#1[0] failed: 0 can't be done"
    assert (stage.standing(), stage.fates()) == (("failed", 1), ["failed"])
    assert stage.statuses() == ["failed", "failed", "cancelled"]


def test_the_last_two_branches_of_nested_fan_outs_join_upwards_once(stage: Stage) -> None:
    stage.fan_out("nest", "double")
    stage.end(1)
    stage.end(0)
    inner = stage.branch(0)
    below = [case_id(f"{WF}.branches", f"A/work#1[0]/work#1[{n}]") for n in (0, 1)]
    stage.run(below[0])
    results = while_locked(
        stage.db,
        [lambda: stage.run(below[1]), lambda: branches.look(stage.engine, inner)],
        f"select 1 from keepstep.heads where id = '{inner}' for update",
    )
    assert not [r for r in results if isinstance(r, Exception)]
    assert stage.standing() == ("queued", 2)
    assert stage.fates().count("joined") == 2


# ---------------------------------------------------------------------------------------------------------- the window
@pytest.mark.parametrize("ends", [1, 2])
def test_who_ends_while_another_looks_waits_for_nobody_and_its_place_is_taken_at_once(stage: Stage, ends: int) -> None:
    """A look has seen three branches run, and is at its writes, when others of them end."""
    stage.fan_out(*["double"] * 7, max_running=4)
    with held(stage.db, "select 1 from keepstep.fans for update"):
        looking = begun(lambda: stage.end(0))
        blocked(stage.db, 1)
        others = [begun(lambda n=number: stage.end(n)) for number in range(1, ends + 1)]
        eventually(lambda: not any(other.is_alive() for other in others), message="they wait for nobody")
        assert looking.is_alive()
        assert stage.statuses().count(None) == 3, "nobody else has made any"
    looking.join(10)
    left = {1: {"queued": 4, None: 1}, 2: {"queued": 4}}[ends]
    assert Counter(stage.statuses()) == {"completed": 1 + ends, **left}


# ------------------------------------------------------------------------------------------- a branch that is cancelled
@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A branch's step has returned, and its commit comes as soon as this is set."""
    go = threading.Event()
    stands = lambda point, case, _seq: point == "called" and case != PARENT and go.wait(10)  # noqa: E731
    monkeypatch.setattr("keepstep.workers.execute.reach", stands)
    return go


def test_a_branch_that_is_at_its_commit_is_passed_over_and_cleared_by_the_sweep(
    stage: Stage, called: threading.Event
) -> None:
    stage.fan_out("double", "double")
    ending = begun(lambda: stage.end(0))
    eventually(lambda: stage.statuses()[0] == "running")
    with held(stage.db, f"select 1 from keepstep.heads where id = '{stage.branch(0)}' for update"):
        called.set()
        blocked(stage.db, 1)
        stage.client.cancel(WF, "A")
        assert stage.statuses() == ["running", "cancelled"]
    ending.join(10)
    assert stage.statuses() == ["completed", "cancelled"], "its effect was made, and its result is there"
    assert branch_rows.left(stage.db, 10) == [PARENT]
    branches.sweep(stage.engine)
    assert branch_rows.left(stage.db, 10) == []
    assert stage.standing() == ("cancelled", 1)


def test_a_branch_that_is_cancelled_just_before_its_commit_is_late_and_moves_nobody(
    stage: Stage, called: threading.Event
) -> None:
    stage.fan_out("double", "double")
    ending = begun(lambda: stage.end(0))
    eventually(lambda: stage.statuses()[0] == "running")
    with stage.db.transaction() as clearing:
        clearing.execute(sql.CLEAR, {"id": PARENT, "seq": 1, "limit": 1000, "error": "{}"})
        called.set()
        blocked(stage.db, 1)
    ending.join(10)
    assert stage.statuses() == ["cancelled", "cancelled"]
    tried = stage.db.all(sa.text("select outcome from keepstep.attempts where case_id = :id"), {"id": stage.branch(0)})
    assert [row.outcome for row in tried] == ["late"]
    assert stage.standing() == ("waiting", 1)
    assert joins.undone(stage.db, 10) == [PARENT], "whoever dies before they are followed up, the sweep sees it"
