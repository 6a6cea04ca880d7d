"""Every failpoint of every kind of step, under every fault: each case completes, or is held as its policy says.

All cells of one fault are run at once: each case halts at its point, then the fault strikes them all. Afterwards there
is one checkpoint a step, and every effect was made under one key; an effect that was made twice is counted, and is
allowed only where the policy is "retry". A case that is held is moved by what an operator would find out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from keepstep.dev.servers import Servers
from keepstep.steps.keys import case_id, idempotency_key
from keepstep.workers.failpoints import POINTS
from tests import matrix_flows
from tests.matrix_flows import KINDS, LEAVES, MIDDLE
from tests.support import outside
from tests.support.eventually import eventually
from tests.support.failpoints import Failpoints
from tests.support.faults import FAULTS, Scene, kill_children

ONLY = {
    "intended": "once",
    "answered": "once",
    "recorded": "once",
    "written": "transactional",
    "born": "fan",
    "joined": "fan",
}


@dataclass(frozen=True)
class Cell:
    """One kind of step, halted at one point."""

    kind: str
    point: str

    @property
    def workflow(self) -> str:
        return f"matrix-{self.kind}"

    @property
    def thread_id(self) -> str:
        return f"{self.kind}-{self.point}"

    @property
    def seq(self) -> int:
        """Of the message that the point is about: `ringing` is about that of the step after the middle one."""
        if self.point in ("born", "joined"):
            return 2  # of the checkpoint that fanned out
        if self.point != "ringing":
            return 1
        return {"wait": 3, "fan": 3, "retry": 1}.get(self.kind, 2)

    @property
    def may_repeat(self) -> bool:
        """Whether the effect may be made once more, under its key, when it was made and nobody wrote so."""
        return self.kind not in ("hold", "verify", "transactional")


CELLS = [Cell(kind, point) for kind in KINDS for point in POINTS if ONLY.get(point, kind) == kind]


MODES = {
    "lean": {},
    "stock": {"KEEPSTEP_LEAN": "false", "KEEPSTEP_PREPARED_STATEMENTS": "false"},
    "inline": {"KEEPSTEP_INLINE_SECONDS": "60"},
}
"""Each mode of the engine, as settings. Inline, there is no message for the middle step, nor for the one after it."""


@pytest.fixture
def workflows() -> list[Workflow]:
    return matrix_flows.ALL


QUICK = (kill_children, "lean")
"""What `make test` runs of it; `make crash` runs all."""


@pytest.mark.parametrize(
    ("fault", "mode"),
    [
        pytest.param(fault, mode, marks=() if (fault, mode) == QUICK else pytest.mark.slow)
        for fault in FAULTS
        for mode in MODES
    ],
)
def test_every_kind_of_step_at_every_point(
    client: Client, db: Database, servers: Servers, start_worker, tmp_path, fault: Callable[[Scene], None], mode: str
) -> None:
    outside.prepare(db)
    points = Failpoints(tmp_path / "points")
    cells = [cell for cell in CELLS if mode != "inline" or cell.point not in ("claiming", "ringing")]
    for cell in cells:
        points.arm(cell.point, case_id(cell.workflow, cell.thread_id), cell.seq)
        client.start(cell.workflow, cell.thread_id, {})
        if cell.kind == "wait":
            client.signal(cell.workflow, cell.thread_id, "answer", 42)
    env = {
        "KEEPSTEP_WORKFLOWS": "tests.matrix_flows",
        "KEEPSTEP_LEASE_SECONDS": "2",
        "KEEPSTEP_BEAT_SECONDS": "0.5",
        "KEEPSTEP_SETTLING_SECONDS": "0.5",
        **MODES[mode],
    }
    worker = start_worker(concurrency=len(cells) + 2, env={**env, **points.env})
    eventually(lambda: len(points.reached()) == len(cells), 60, f"all stand at their points, but {points.armed()}")
    fault(Scene(worker, lambda: start_worker(concurrency=4, env=env), points, servers, db))
    for cell in cells:
        finish(client, db, cell)
    for cell in cells:
        check(client, db, cell, inline=mode == "inline")


def finish(client: Client, db: Database, cell: Cell) -> None:
    """Wait for the end; what is held is moved by somebody who looks whether the effect was made."""

    def ended() -> bool:
        case = client.get(cell.workflow, cell.thread_id)
        if case.status == "held":
            assert cell.kind in ("hold", "verify"), (cell, case.reason)
            assert "in doubt" in case.reason["why"], (cell, case.reason)
            if outside.raw_calls(db, cell.thread_id)[MIDDLE]:
                client.skip(cell.workflow, cell.thread_id, update={"log": [*case.state["log"], MIDDLE]})
            else:
                client.retry(cell.workflow, cell.thread_id)
        return case.ended

    eventually(ended, 60, f"{cell} ends")


def check(client: Client, db: Database, cell: Cell, *, inline: bool) -> None:
    case = client.get(cell.workflow, cell.thread_id)
    assert case.status == "completed", (cell, case)
    assert case.state["log"] == ["before", MIDDLE, "after"], (cell, "a step was lost or doubled")
    history = client.history(cell.workflow, cell.thread_id)
    written = Counter(e.seq for e in history if e.kind in ("start", "step", "verify", "signal", "join", "skip"))
    assert written == Counter(range(len(written))), (cell, "a checkpoint is missing or doubled")
    made = outside.effects(db, cell.thread_id)
    keys = {effect.step: {e.key for e in made if e.step == effect.step} for effect in made}
    assert all(len(of_step) == 1 for of_step in keys.values()), (cell, keys)
    assert keys[MIDDLE] == {str(idempotency_key(case.run, 1, MIDDLE))}
    raw = outside.raw_calls(db, cell.thread_id)
    again = {step for step, calls in raw.items() if calls > 1}
    assert MIDDLE not in again or cell.may_repeat, (cell, raw)
    went_on = inline and cell.point in ("committed", "published")
    in_flight = {"after"} if went_on else {MIDDLE, "once.first", "once.second"}
    assert again <= in_flight, (cell, "another step ran again", raw)  # inline, the next lease is taken by the commit
    if cell.kind == "fan":
        check_leaves(client, db, cell)
    if cell.kind == "once" and cell.point in ("recorded", "called", "committed"):
        assert raw["once.first"] == 1, "what is recorded isn't called again"


def check_leaves(client: Client, db: Database, cell: Cell) -> None:
    """No branch is lost or doubled, and each made its effect under one key."""
    case = client.get(cell.workflow, cell.thread_id)
    assert case.state["answer"] == list(range(LEAVES)), cell
    leaves = client.branches(cell.workflow, cell.thread_id)
    assert [leaf.status for leaf in leaves] == ["completed"] * LEAVES, (cell, leaves)
    for leaf in leaves:
        assert len({effect.key for effect in outside.effects(db, leaf.thread_id)}) == 1, (cell, leaf)


def test_every_point_is_in_the_matrix() -> None:
    assert {cell.point for cell in CELLS} == set(POINTS)
