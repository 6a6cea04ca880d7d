"""A rolling deploy, and a rollback, while cases wait for their branches: results of both versions come together."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from keepstep import Client
from keepstep.checkpoint.database import Database
from tests.crash.test_rolling import Fleet, package
from tests.support.eventually import eventually
from tests.support.trace import Trace

MANY = 8
ANSWER = 70


def ended(client: Client, name: str) -> int:
    return sum(branch.status == "completed" for branch in client.branches("parcels", name))


def answer(client: Client, names: list[str], payload: Any = ANSWER, number: int = 0) -> None:
    """A branch's question, in the shape of the version that asks it."""
    for name in names:
        branch = client.branches("parcels", name)[number]
        client.signal("parcels.branches", branch.thread_id or "", "go", payload)


def statuses(client: Client, names: list[str]) -> set[str]:
    found = {str(client.get("parcels", name).status) for name in names}
    assert not found & {"held", "failed"}, [client.get("parcels", name).reason for name in names]
    return found


@pytest.mark.slow
def test_fan_outs_that_are_open_across_a_deploy_and_a_rollback_lose_and_mix_nothing(
    start_worker: Any, database_url: str, broker_url: str, db: Database, trace: Trace, tmp_path: Path
) -> None:
    fleet = Fleet(start_worker, tmp_path / "environments", module="parcels")
    clients = {v: Client(database_url, broker_url, workflows=[package(v, "parcels")]) for v in ("old", "new")}
    client = clients["old"]

    def until(names: list[str], *wanted: str) -> None:
        eventually(lambda: statuses(client, names) <= set(wanted), 90, f"all are {wanted}", every=0.2)

    def until_ended(names: list[str], many: int) -> None:
        eventually(lambda: all(ended(client, name) == many for name in names), 60, f"{many} have ended", every=0.2)

    # one at a time: nothing has begun behind the first, which waits; two: all but the first end under the old code
    old = [fleet.worker("old"), fleet.worker("old")]
    ones, twos, asked = ([f"{kind}{n}" for n in range(MANY)] for kind in ("one", "two", "asked"))
    client.start_many("parcels", [(name, {"at_once": 1}) for name in ones] + [(n, {"at_once": 2}) for n in twos])
    client.start_many("parcels", [(name, {"contents": ["ask", "bb", "ask", "dddd"]}) for name in asked])
    until_ended(twos, 3)
    eventually(lambda: len(client.inbox(workflow="parcels.branches")) == 3 * MANY, 60, "all first ones wait")

    # ---------------------------------------------------------------------------------- both codes, then the new alone
    new = fleet.worker("new")
    answer(client, ones[:4] + twos[:4])
    until(twos[:4], "completed")
    old[0].kill()
    old[1].kill()
    until(ones[:4], "completed")
    answer(client, ones[4:6] + twos[4:6] + asked)
    until(ones[4:6] + twos[4:6], "completed")
    until_ended(asked, 2)
    eventually(lambda: len(client.inbox(workflow="parcels.branches")) == MANY + 4, 30, "the third ones wait")

    # ------------------------------- back: a branch of each has ended in the new code, and the old one runs the rest
    new.kill()
    back = fleet.worker("old")
    answer(client, asked, {"grams": ANSWER}, number=2)
    answer(client, ones[6:] + twos[6:])
    until(ones[6:] + twos[6:], "completed")
    until_ended(asked, 4)
    assert statuses(client, asked) == {"waiting"}, "the old code doesn't know what the new one's results are"
    why = clients["old"].why("parcels", asked[0])
    assert "is of version 2, and the live workers know version 1" in why.sentence

    # ------------------------------------------------------------------------------------------------ forward again
    fleet.worker("new")
    back.stop()
    until(ones + twos + asked, "completed")
    for name in (*ones, *twos, *asked):
        state = client.get("parcels", name).state
        upcast = isinstance(state["contents"][0], dict)
        expected = [ANSWER, 2, ANSWER, 4] if name in asked else [ANSWER, 2, 3, 4]
        assert state["weights"] == ([{"grams": n} for n in expected] if upcast else expected), name
        assert upcast or name not in asked
        assert len(state["log"]) == 1, name
        assert [e.kind for e in client.history("parcels", name) if e.kind == "join"] == ["join"], name
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in trace.lines():
        keys[line.thread_id, "weigh" if line.step in ("weigh", "scale") else line.step].add(line.key)
    assert {which: found for which, found in keys.items() if len(found) > 1} == {}, "a step was called under two keys"
    for one in clients.values():
        one.close()
