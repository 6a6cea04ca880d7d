"""A step that this worker's code doesn't have: another one may, and only if nobody does is the case held."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import nodes
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import Node
from tests.support.eventually import eventually

RENAMED = sa.text("update keepstep.heads set step = 'of_another_release'")
DEFERRALS = sa.text("select deferrals as n from keepstep.heads")


def elsewhere(*steps: str) -> Node:
    """A worker of another release, on another host."""
    return Node(
        id=uuid4(), host="elsewhere", host_id="elsewhere", process="1:1", queues=("other",), workflows={"once": 1},
        steps={"once": list(steps)}, pool="prefork", concurrency=1, version="1",
    )  # fmt: skip


def test_a_step_that_exists_nowhere_is_held_after_the_grace(client: Client, start_worker, db: Database) -> None:
    client.start("once", "A", {})
    db.run(RENAMED, {})
    with db.connect() as connection:
        nodes.beat(connection, elsewhere("only"))
    start_worker(env={"KEEPSTEP_UNKNOWN_STEP_GRACE_SECONDS": "0"})
    case = eventually(lambda: (c := client.get("once", "A")).status == "held" and c, 20)
    assert case.reason["why"] == "unknown step"
    assert "of_another_release" in case.reason["message"]
    assert "only" in case.reason["message"]


@pytest.mark.slow
def test_a_step_that_another_worker_has_waits_for_that_one(client: Client, start_worker, db: Database) -> None:
    client.start("once", "A", {})
    db.run(RENAMED, {})
    with db.connect() as connection:
        nodes.beat(connection, elsewhere("only", "of_another_release"))
    start_worker(env={"KEEPSTEP_UNKNOWN_STEP_GRACE_SECONDS": "0", "KEEPSTEP_LEASE_SECONDS": "30"})
    eventually(lambda: db.all(DEFERRALS)[0].n >= 2, 30, "it was deferred twice")
    assert client.get("once", "A").status in ("sleeping", "queued", "running")
