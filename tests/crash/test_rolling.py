"""A rolling deploy, and a rollback: workers of two versions of a package at once, on the same queues."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint.database import Database
from tests.support.environment import environment
from tests.support.eventually import eventually
from tests.support.trace import Trace
from tests.support.worker import ROOT, Worker

VERSIONS = Path(__file__).parent / "versions"
CASES = 40


def package(version: str, module: str = "orders") -> Workflow:
    """The workflow of this version, beside the other one's."""
    spec = importlib.util.spec_from_file_location(f"{module}_{version}", VERSIONS / version / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    workflow: Workflow = getattr(loaded, module)
    return workflow


class Fleet:
    """Workers of both versions, each version in a virtual environment of its own."""

    def __init__(self, start_worker: Any, home: Path, module: str = "orders"):
        self._start, self._module = start_worker, module
        self._pythons = {version: environment(home / version, [ROOT, VERSIONS / version]) for version in ("old", "new")}

    def worker(self, version: str) -> Worker:
        env = {"KEEPSTEP_WORKFLOWS": self._module, "PYTHONPATH": "", "KEEPSTEP_CODE_VERSION": version}
        worker: Worker = self._start(env=env, python=self._pythons[version], cwd=VERSIONS / version)
        return worker


@pytest.fixture
def fleet(start_worker: Any, tmp_path: Path) -> Fleet:
    return Fleet(start_worker, tmp_path / "environments")


@pytest.fixture
def clients(database_url: str, broker_url: str) -> Iterator[dict[str, Client]]:
    """Backends of both versions."""
    both = {name: Client(database_url, broker_url, workflows=[package(name)]) for name in ("old", "new")}
    yield both
    for client in both.values():
        client.close()


def start(client: Client, prefix: str, version: str) -> list[str]:
    state = {"customer": "Ada Lovelace"} if version == "old" else {"given": "Ada", "family": "Lovelace"}
    names = [f"{prefix}{n}" for n in range(CASES // 4)]
    client.start_many("orders", [(name, state) for name in names])
    return names


def answer(client: Client, names: list[str]) -> None:
    """In the shape in which each was asked."""
    for name in names:
        [wait] = client.waits("orders", name)
        asks_for_object = "properties" in (wait["schema"] or {})
        client.signal("orders", name, "ok", {"yes": True} if asks_for_object else "yes")


def of_version(db: Database, version: int) -> list[str]:
    """The live cases whose state has this version."""
    query = "select thread_id from keepstep.heads join keepstep.cases using (id) where schema_version = :version"
    return [row.thread_id for row in db.all(sa.text(f"{query} order by 1"), {"version": version})]


def statuses(client: Client, names: list[str]) -> Counter[str]:
    return Counter(str(client.get("orders", name).status) for name in names)


def all_are(client: Client, names: list[str], *wanted: str, timeout: float = 90.0) -> None:
    def there() -> bool:
        now = statuses(client, names)
        bad = {"held", "failed", "cancelled"} & now.keys()
        assert not bad, [(n, client.get("orders", n).reason) for n in names if client.get("orders", n).status in bad]
        return now.keys() <= set(wanted)

    eventually(there, timeout, f"all are {wanted}", every=0.2)


@pytest.mark.slow
def test_a_rolling_deploy_and_a_rollback_lose_and_repeat_nothing(
    fleet: Fleet, clients: dict[str, Client], db: Database, trace: Trace
) -> None:
    old = [fleet.worker("old"), fleet.worker("old")]
    before = start(clients["old"], "before", "old")
    asleep = start(clients["old"], "asleep", "old")
    all_are(clients["old"], asleep, "waiting")  # these wait through the whole deploy
    answer(clients["old"], before)

    # ------------------------------------------------------------ the new ones come, the old ones are killed one by one
    new = [fleet.worker("new")]
    amid = start(clients["old"], "amid", "old") + start(clients["new"], "fresh", "new")
    old[0].kill()
    new.append(fleet.worker("new"))
    old[1].kill()
    all_are(clients["new"], before, "completed")
    all_are(clients["new"], amid, "waiting")

    # ----------------------------------------------------------------- back: new checkpoints meet the old code
    newer = of_version(db, 2)
    assert newer, "at least those that a new backend has started"
    answer(clients["new"], newer[: len(newer) // 2])
    back = fleet.worker("old")
    for worker in new:
        worker.kill()
    late = start(clients["old"], "late", "old")
    all_are(clients["old"], late, "waiting")
    answer(clients["old"], late)
    all_are(clients["old"], late, "completed")
    left = [name for name in newer if clients["old"].get("orders", name).status != "completed"]
    assert len(left) >= len(newer) // 2
    assert statuses(clients["old"], left).keys() <= {"queued", "waiting"}
    burnt = db.all(
        sa.text("select count(*) as n from keepstep.heads where schema_version = 2 and (failures > 0 or deferrals > 0)")
    )
    assert burnt[0].n == 0, "whoever can't load a case burns none of its tries"
    assert set(left) <= set(of_version(db, 2)), "and leaves it as it is"

    # -------------------------------------------------------------------------------------------- forward again
    fleet.worker("new")
    back.stop()
    answer(clients["new"], asleep + [n for n in amid if clients["new"].get("orders", n).status == "waiting"])
    everybody = [*before, *asleep, *amid, *late]
    all_are(clients["new"], everybody, "completed")
    for name in asleep:
        log = clients["new"].get("orders", name).state["log"]
        assert (log[0], log[-1]) == ("1 reserve", "2 send"), "begun by one version, ended by the other"
    for name in everybody:
        case = clients["new"].get("orders", name)
        stored = "customer" in case.state
        assert (case.state["customer"] if stored else case.state["given"]) in ("Ada Lovelace", "Ada")
        done = [entry.partition(" ")[2] for entry in case.state["log"]]
        assert done == sorted(set(done), key=done.index), f"{name} did a step twice: {done}"
        assert [step for step in ("reserve", "price", "charge", "send") if step not in done] == [], name
        assert case.crashes in (None, 0)
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in trace.lines():
        keys[line.thread_id, line.step].add(line.key)
    assert {which: found for which, found in keys.items() if len(found) > 1} == {}, "a step was called under two keys"
