"""keepstep's own deploy: the database is upgraded under the release before, whose workers go on with it, beside ours.

The release is the very wheel that was published, installed into a virtual environment of its own.
"""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from tests.support.eventually import eventually
from tests.support.release import releases
from tests.support.servers import Urls
from tests.support.trace import Trace
from tests.support.worker import ROOT, Worker

FLOWS = Path(__file__).parent / "versions" / "kept"
STEPS = ["first", "spread", "nap", "ask", "begin_child", "pay", "last"]
MANY = 8


@dataclass(frozen=True)
class Before:
    """The release before, installed: its workers, its command, its library."""

    version: str
    python: Path
    env: dict[str, str]

    def run(self, *args: str) -> str:
        """Its Python with these arguments; what it prints."""
        env = {**os.environ, **self.env, "KEEPSTEP_WORKFLOWS": "kept", "PYTHONPATH": ""}
        ran = subprocess.run([self.python, *args], env=env, cwd=FLOWS, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def keepstep(self, *args: str) -> str:
        return self.run("-m", "keepstep.cli.main", *args)

    def start(self, prefix: str) -> list[str]:
        names = [f"{prefix}{n}" for n in range(MANY)]
        self.run("-c", f"import keepstep; keepstep.Client().start_many('kept', [(name, {{}}) for name in {names}])")
        return names


@pytest.fixture
def database_url(urls: Urls, admin: Database) -> Iterator[str]:
    """An empty database: who makes the tables is part of the test."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    admin.run(sa.text(f"create database {name}"), {})
    yield urls.database(name)
    admin.run(sa.text(f"drop database if exists {name} with (force)"), {})


@pytest.fixture
def before(tmp_path: Path, worker_env: dict[str, str]) -> Before:
    release = releases()[-1]
    return Before(release.version, release.install(tmp_path / "environment", [FLOWS]), worker_env)


@pytest.fixture
def start(start_worker: Any, before: Before) -> Any:
    """Start a worker: of the release `before`, or of this tree."""

    def start(which: str) -> Worker:
        env = {"KEEPSTEP_WORKFLOWS": "kept", "KEEPSTEP_CODE_VERSION": which}
        if which == "before":
            return start_worker(env={**env, "PYTHONPATH": ""}, python=before.python, cwd=FLOWS)
        return start_worker(env={**env, "PYTHONPATH": f"{ROOT}:{FLOWS}"}, cwd=FLOWS)

    return start


@pytest.mark.slow
def test_workers_of_the_release_before_run_on_todays_tables_beside_ours_and_cases_go_from_each_to_the_other(
    before: Before,
    start: Any,
    database_url: str,
    broker_url: str,
    db: Database,
    trace: Trace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert before.run("-c", "import keepstep; print(keepstep.__version__)").strip() == before.version
    before.keepstep("db", "upgrade")
    db.run(sa.text("create table paid (thread_id text primary key)"), {})
    monkeypatch.syspath_prepend(FLOWS)
    client = Client(database_url, broker_url, workflows=["kept"])
    told = Told(client)

    # --------------------------------------------------- the release before alone; the tables are upgraded under it
    old = [start("before"), start("before")]
    early = before.start("early")
    told.rest(early, "spread")
    schema.upgrade(db)
    schema.check(db)
    busy = before.start("busy")
    told.rest(busy, "spread")

    # ------------------------------------------------------------------------ both at once, and one of each is killed
    new = [start("today"), start("today")]
    told.go(busy)
    amid = [f"amid{n}" for n in range(MANY)]
    client.start_many("kept", [(name, {}) for name in amid])
    told.rest(busy, "ask")
    old[0].kill()
    told.approve(busy)
    new[0].kill()
    told.rest(amid, "spread")
    told.go(amid)
    told.rest(amid, "ask")
    told.end(busy)

    # -------------------------------------------------- ours alone: what the others began goes on, and more is begun
    old[1].kill()
    told.go(early)
    told.rest(early, "ask")
    told.approve(early)
    told.end(early)
    late = [f"late{n}" for n in range(MANY)]
    client.start_many("kept", [(name, {}) for name in late])
    told.rest(late, "spread")

    # ------------------------------------------------------- the release before alone: what ours began goes on there
    start("before")
    new[1].kill()
    told.approve(amid)
    told.go(late)
    told.end(amid)
    told.rest(late, "ask")
    told.approve(late)
    told.end(late)

    # ----------------------------------------------------------------------------------------------- what came of it
    assert told.codes(early) == ["before", "today"], "begun there, ended here"
    assert told.codes(late) == ["today", "before"], "and the reverse"
    for name in (early[0], late[0], busy[0], amid[0]):
        assert "completed" in before.keepstep("show", "kept", name)
        assert "join" in before.keepstep("history", "kept", name)
    assert all(name in before.keepstep("list", "--workflow", "kept", "--limit", "200") for name in (*early, *late))
    everybody = [*early, *busy, *amid, *late]
    for name in everybody:
        state = client.get("kept", name).state
        assert state["log"] == ["first", "spread", "nap", "pay", "last"], name
        assert (state["doubled"], state["child"], state["receipt"]) == ([5, 2, 4], {"n": 2}, 7), name
        assert [line.step for line in trace.lines(name) if line.step == "ended"], f"the hook of {name} was called"
        for step in STEPS:
            assert len({line.key for line in trace.lines(name, step)}) == 1, (name, step)
    paid = db.all(sa.text("select thread_id from paid order by 1"))
    assert [row.thread_id for row in paid] == sorted(everybody), "once each"
    tries = {row.outcome for row in db.all(sa.text("select outcome from keepstep.attempts"))}
    assert tries <= {"crashed", "node_died"}, "only those that were killed came to nothing"
    client.close()


class Told:
    """What people do to the cases, and where those come to rest."""

    def __init__(self, client: Client):
        self._client = client

    def rest(self, names: list[str], step: str) -> None:
        """Wait until all wait at this step: `spread` for their branches, `ask` for a decision."""
        eventually(lambda: all(self._at(name) == ("waiting", step) for name in names), 60, f"all at {step}", every=0.2)

    def _at(self, name: str) -> tuple[str, str | None]:
        case = self._client.get("kept", name)
        assert case.status not in ("held", "failed"), (name, case.reason)
        branches = self._client.branches("kept", name) if case.step == "spread" else ()
        return str(branches[0].status if branches else case.status), case.step

    def go(self, names: list[str]) -> None:
        """Let the first branches of these end: the others are still to be made."""
        for name in names:
            branch = self._client.branches("kept", name)[0]
            self._client.signal("kept.branches", branch.thread_id or "", "go", 5)

    def approve(self, names: list[str]) -> None:
        for name in names:
            self._client.approve("kept", name, actor="one")

    def end(self, names: list[str]) -> None:
        def ended() -> bool:
            return all(self._client.get("kept", name).status == "completed" for name in names)

        eventually(ended, 60, "all are completed", every=0.2)

    def codes(self, names: list[str]) -> list[str]:
        """What code wrote the checkpoints of these cases, in order, each named once."""
        found: list[str] = []
        for name in names:
            for event in self._client.history("kept", name):
                code = event.detail.get("code")
                if code and code["code"] not in found:
                    found.append(code["code"])
        return found
