"""A node that is frozen in the middle of a transaction, its locks held and its sockets open, keeps nobody."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from tests import stuck_flows
from tests.support.eventually import eventually
from tests.support.trace import Trace

ENV = {"KEEPSTEP_WORKFLOWS": "tests.stuck_flows", "KEEPSTEP_LEASE_SECONDS": "2", "KEEPSTEP_BEAT_SECONDS": "0.5"}
NODES = sa.text("select count(*) as n from keepstep.nodes")


@pytest.fixture
def workflows() -> list[Workflow]:
    return stuck_flows.ALL


@pytest.mark.slow
def test_it_is_taken_for_dead_and_its_delivery_is_made_by_another_while_it_is_frozen(
    client: Client, db: Database, start_worker, trace: Trace, tmp_path: Path
) -> None:
    client.start("asking", "A", {})
    client.signal("asking", "A", "answer", {"value": "yes"})
    stuck = tmp_path / "stuck"
    frozen = start_worker(env={**ENV, stuck_flows.VARIABLE: str(stuck)})
    eventually(lambda: stuck.exists() and stuck.read_text(), 20, "it stands in the middle of the delivery")
    frozen.freeze()
    start_worker(env=ENV)
    eventually(lambda: db.all(NODES)[0].n == 1, 12, "it is taken for dead")
    assert client.wait("asking", "A", 20).status == "completed"
    stuck.write_text("")
    frozen.thaw()
    eventually(lambda: db.all(NODES)[0].n == 2, 20, "it is back")
    events = Counter(event.kind for event in client.history("asking", "A"))
    assert (events["step"], events["signal"]) == (2, 1), "nothing is doubled"
    assert [line.step for line in trace.lines("A")] == ["ask", "after"]
    assert client.start("asking", "B", {}).new
    client.signal("asking", "B", "answer", {"value": "yes"})
    assert client.wait("asking", "B", 20).status == "completed"
