"""A fan-out, a branch and the join, killed at every failpoint: no branch is lost, none is doubled, one join each.

Nine cases at once, each with three branches: in each case one process is killed at one point, of the case itself or of
its second branch. And one case with a list of ten thousand, whose workers are killed in the middle of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.steps.keys import case_id
from tests import branch_flows, matrix_flows
from tests.matrix_flows import LEAVES
from tests.support import outside
from tests.support.eventually import eventually
from tests.support.failpoints import Failpoints
from tests.support.trace import Trace

WORKFLOW = "matrix-fan"
OF_THE_BRANCH = ("claiming", "claimed", "called", "committed", "published")
OF_THE_CASE = (("committed", 1), ("published", 1), ("born", 2), ("joined", 2))


@dataclass(frozen=True)
class Cell:
    """A point. branch: of the second branch, at its start; else of the case, at `seq`."""

    point: str
    branch: bool
    seq: int

    @property
    def thread_id(self) -> str:
        return f"{self.point}-{'branch' if self.branch else 'case'}"

    @property
    def case(self) -> UUID:
        if self.branch:
            return case_id(f"{WORKFLOW}.branches", f"{self.thread_id}/leaf#2[1]")
        return case_id(WORKFLOW, self.thread_id)


CELLS = [*(Cell(point, True, 0) for point in OF_THE_BRANCH), *(Cell(point, False, seq) for point, seq in OF_THE_CASE)]


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["a pool process", "the worker"])
def test_a_branch_and_its_join_survive_a_death_at_every_point(
    client: Client, db: Database, start_worker, tmp_path, dies: str
) -> None:
    outside.prepare(db)
    points = Failpoints(tmp_path / "points")
    action = "kill" if dies == "a pool process" else "halt"
    for cell in CELLS:
        points.arm(cell.point, cell.case, cell.seq, action)
        client.start(matrix_flows.matrix_fan, cell.thread_id, {})
    env = {"KEEPSTEP_WORKFLOWS": "tests.matrix_flows"}
    worker = start_worker(concurrency=4 if action == "kill" else len(CELLS) + 2, env={**env, **points.env})
    eventually(lambda: len(points.reached()) == len(CELLS), 60, f"each came by its point, but {points.armed()}")
    if action == "halt":
        worker.kill()
        start_worker(concurrency=2, env=env)
    for cell in CELLS:
        case = client.wait(WORKFLOW, cell.thread_id, timeout=60.0)
        assert (case.status, case.state["answer"]) == ("completed", list(range(LEAVES))), (cell, case)
        written = Counter(
            event.kind for event in client.history(WORKFLOW, cell.thread_id) if event.kind in ("start", "step", "join")
        )
        assert written == {"start": 1, "step": 3, "join": 1}, cell
        leaves = client.branches(WORKFLOW, cell.thread_id)
        assert [leaf.status for leaf in leaves] == ["completed"] * LEAVES, (cell, leaves)
        for leaf in leaves:
            made = outside.effects(db, leaf.thread_id)
            assert len({effect.key for effect in made}) == 1, (cell, leaf)
            again = outside.raw_calls(db, leaf.thread_id)["leaf"] > 1
            assert not again or (cell.branch and leaf.number == 1), (cell, leaf, "another branch ran again")


MANY, WINDOW, PROCESSES = 10_000, 200, 2

_FAR = sa.text("""
select f.made, f.total, (select count(*) from keepstep.branches b where b.case_id = f.case_id) as listed,
       (select count(*) from keepstep.cases k where k.parent = f.case_id) as born,
       (select count(*) from keepstep.cases k where k.parent = f.case_id and k.status is null) as alive
  from keepstep.fans f
""")


@pytest.mark.slow
def test_ten_thousand_branches_are_made_once_each_by_a_cursor_though_workers_are_killed(
    client: Client, db: Database, start_worker, trace: Trace
) -> None:
    env = {"KEEPSTEP_WORKFLOWS": "tests.branch_flows"}
    workers = [start_worker(concurrency=PROCESSES, env=env) for _ in range(2)]
    items = [{"n": n} for n in range(MANY)]
    client.start(branch_flows.fanning, "A", {"over": items, "how": {"max_running": WINDOW}})

    def far() -> int:
        """How far it is, at one instant: the list is there as a whole, and no more of it runs than may."""
        row = next(iter(db.all(_FAR)), None)
        if row is None:
            return 0  # the step that fans out has not run yet
        assert (row.total, row.listed, row.born) == (MANY, MANY, row.made), row
        assert row.alive <= WINDOW, row
        return row.made - row.alive

    for ended in (2000, 5000):
        eventually(lambda goal=ended: far() >= goal, 120, f"{ended} have ended", every=0.05)
        workers.pop(0).kill()
        workers.append(start_worker(concurrency=PROCESSES, env=env))
    eventually(lambda: far() == MANY, 120, "all have ended", every=0.05)
    case = client.wait("fanning", "A", timeout=60.0)
    assert case.status == "completed", case
    assert case.state["results"] == [2 * n for n in range(MANY)]
    assert Counter(event.kind for event in client.history("fanning", "A"))["join"] == 1
    ran = Counter(line.thread_id for line in trace.lines(step="work"))
    keys = {line.key for line in trace.lines(step="work")}
    assert set(ran) == {f"A/work#1[{n}]" for n in range(MANY)}
    assert len(keys) == MANY, "what was delivered again came under the same key"
    twice = [thread_id for thread_id, times in ran.items() if times > 1]
    assert len(twice) <= 2 * PROCESSES, "at the most the one that each killed process had in hand"
