"""keepstep's own deploy: the database is upgraded first, and the workers of the release before go on with it.

Until there is a release, it is tried with the wheel of this very tree, so that the way itself is known to work: that
worker finds nothing of this folder, only what was installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from tests.support.environment import environment, installed
from tests.support.eventually import eventually
from tests.support.release import THIS_TREE, previous, wheel

FLOW = """
from pydantic import BaseModel
from keepstep import Approval, Workflow, wait_for

class State(BaseModel):
    log: list[str] = []
    approval: Approval | None = None

flow = Workflow("kept", state=State)

def note(state, call):
    call.once("book", lambda: 7)
    return {"log": [*state.log, call.step]}

for name in ("one", "two"):
    flow.step(note, name=name)

@flow.step
def ask(state, call):
    return wait_for("approval", into="approval", payload=Approval)

for name in ("three", "four"):
    flow.step(note, name=name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("tag", [THIS_TREE, *previous()])
def test_workers_of_the_release_before_run_on_todays_tables(
    tag: str, start_worker: Any, client: Client, db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flows = tmp_path / "flows"
    flows.mkdir()
    (flows / "kept_flow.py").write_text(FLOW)
    monkeypatch.syspath_prepend(flows)
    client.registry.load(["kept_flow"])
    package = installed(wheel(tag, tmp_path / "built"), tmp_path / "package")
    python = environment(tmp_path / "environment", [package, flows])
    env = {"KEEPSTEP_WORKFLOWS": "kept_flow", "PYTHONPATH": "", "KEEPSTEP_CODE_VERSION": tag}

    start_worker(env=env, python=python, cwd=flows)
    names = [f"A{n}" for n in range(20)]
    client.start_many("kept", [(name, {}) for name in names])
    _all(client, names[:10], "waiting")
    for name in names[:10]:
        client.approve("kept", name, actor="one")
    _all(client, names[:10], "completed")
    code = client.history("kept", "A0")[1].detail["code"]
    assert code is None or code["code"] == tag  # None: of a release that didn't say so yet

    start_worker(env={**env, "PYTHONPATH": f"{Path(__file__).parents[2]}:{flows}", "KEEPSTEP_CODE_VERSION": "today"})
    for name in names[10:]:
        client.approve("kept", name, actor="one")
    client.start_many("kept", [(f"B{n}", {}) for n in range(20)])
    _all(client, names, "completed")
    _all(client, [f"B{n}" for n in range(20)], "waiting")
    assert db.all(sa.text("select 1 from keepstep.attempts where outcome <> 'deferred'")) == [], "nothing went wrong"
    [logs] = {tuple(client.get("kept", name).state["log"]) for name in names}
    assert logs == ("one", "two", "three", "four")


def _all(client: Client, names: list[str], status: str) -> None:
    eventually(lambda: all(client.get("kept", n).status == status for n in names), 60, f"all are {status}", every=0.2)
