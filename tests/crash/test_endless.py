"""A loop that never ends, in real workers that are killed: it keeps its last checkpoints, and loses nothing."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from tests import log_flows
from tests.support.eventually import eventually

KEEP = log_flows.endless.keep_checkpoints or 0
KILLS = 5


@pytest.fixture
def workflows() -> list[Workflow]:
    return log_flows.ALL


def kept(db: Database) -> tuple[int, int]:
    """The first and the last checkpoint that there is."""
    row = db.all(sa.text("select min(seq) as first, max(seq) as last from keepstep.checkpoints"))[0]
    return row.first, row.last


@pytest.mark.slow
@pytest.mark.parametrize("env", [{}, {"KEEPSTEP_INLINE_SECONDS": "2"}], ids=["message", "inline"])
def test_what_a_quick_loop_stores_stays_small_while_its_workers_die(
    client: Client, db: Database, start_worker: Any, env: dict[str, str]
) -> None:
    """It would have thousands of checkpoints; of each five seconds it keeps the last of them."""
    worker = start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.log_flows", **env}, concurrency=2)
    client.start("endless", "A", {"until": 10**9})
    eventually(lambda: client.get("endless", "A").seq > KEEP, 30, "the loop has begun")
    first, folded, steps = 0, 0, 0
    for kill in range(KILLS):
        _, *children = worker.tree()
        children[kill % len(children)].kill()
        now = client.get("endless", "A").seq
        eventually(lambda now=now: client.get("endless", "A").seq > now + 5 * KEEP, 60, "the loop goes on")
        eventually(lambda first=first: kept(db)[0] > first, 60, "its past is folded away")
        first, last = kept(db)
        folded, steps = folded + 1, max(steps, last - first)
    client.cancel("endless", "A", reason="enough")
    case = client.get("endless", "A")
    numbers = [one["number"] for one in case.state["messages"]]
    assert numbers == list(range(len(numbers))), "each step appended its message once"
    assert case.seq == len(numbers)
    assert folded == KILLS
    first, last = kept(db)
    assert last - first < last / 2, f"{last - first} of {last} are kept, the most at a time was {steps}"
