"""Every failpoint of a step in the middle of a batch, under every fault: nobody is lost, and nobody doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from keepstep.dev.servers import Servers
from keepstep.steps.keys import case_id, idempotency_key
from tests import batch_flows
from tests.batch_flows import NAMES
from tests.support.company import largest
from tests.support.eventually import eventually
from tests.support.failpoints import Failpoints
from tests.support.faults import FAULTS, Scene
from tests.support.trace import Trace

POINTS = ["claiming", "claimed", "called", "committed", "ringing", "published"]
INLINE_POINTS = ["claimed", "called", "committed"]
"""Of a step whose lease was taken with the commit of the one before."""
CROWD = 12
ENV = {"KEEPSTEP_WORKFLOWS": "tests.batch_flows", "KEEPSTEP_LEASE_SECONDS": "2", "KEEPSTEP_BEAT_SECONDS": "0.5"}


@pytest.fixture
def workflows() -> list[Workflow]:
    return batch_flows.ALL


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("point", "inline"), [*((point, "0") for point in POINTS), *((point, "1.4") for point in INLINE_POINTS)]
)
def test_a_batch_that_stands_still_in_the_middle(
    client: Client,
    db: Database,
    servers: Servers,
    start_worker,
    trace: Trace,
    tmp_path,
    point: str,
    inline: str,
    fault: Callable[[Scene], None],
) -> None:
    points = Failpoints(tmp_path / "points")
    env = {**ENV, "KEEPSTEP_INLINE_SECONDS": inline}
    worker = start_worker(concurrency=1, env={**env, **points.env})
    client.start_many("crowd", {f"W{i}": {} for i in range(6)})
    eventually(lambda: client.counts("crowd").get("completed") == 6, 20, "the steps are known to be quick")
    client.start("crowd", "busy", {"how": "sleep", "seconds": 0.5})
    eventually(lambda: trace.lines("busy", "s4"), 20, "the pool's only process is busy")
    seq = 2 if point == "ringing" or float(inline) else 1
    points.arm(point, case_id("crowd", "A6"), seq)
    names = [f"A{i}" for i in range(CROWD)]
    client.start_many("crowd", {name: {} for name in names})
    eventually(points.reached, 20, f"one stands at {point}")
    if point in ("called", "claimed"):  # it has the process for itself: the others are committed, or given back
        alone = sa.text("select count(*) as n from keepstep.heads where owner is not null")
        eventually(lambda: db.all(alone)[0].n == 1, 20, "the others have left it")
    fault(Scene(worker, lambda: start_worker(concurrency=2, env=env), points, servers, db))
    eventually(lambda: client.counts("crowd").get("completed") == 7 + CROWD, 60, "all are over")
    assert largest(db) > 1, "they were in company"
    for name in names:
        case = client.get("crowd", name)
        assert case.state["log"] == NAMES, "a step was lost, or doubled"
        written = Counter(e.seq for e in client.history("crowd", name) if e.kind in ("start", "step"))
        assert written == Counter(range(7))
        ran = Counter(line.step for line in trace.lines(name))
        assert all(times <= 2 for times in ran.values()), ran
        assert sum(ran.values()) - len(ran) <= 1, f"more than the step in flight ran again: {ran}"
        for line in trace.lines(name):
            assert line.key == str(idempotency_key(case.run, NAMES.index(line.step), line.step))
