"""The roles of docs/security.md: its very lines, a case under the application's role, looks under the viewer's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.config.settings import postgres_url
from keepstep.monitor.doctor import Patient, examine
from keepstep.monitor.metrics import Exporter
from tests import flows
from tests.conftest import StartWorker

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
ROLES = ("keepstep_app", "keepstep_view", "keepstep_owner")


@pytest.fixture
def divided(database_url: str, db: Database, admin: Database) -> Iterator[str]:
    """A database whose tables the documented lines have given to three roles; its URL without a user."""
    db.run(sa.text("drop schema keepstep cascade"), {})
    [lines] = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in lines.split(";\n"):
        if line.strip():
            db.run(sa.text(line.strip()), {})
    owner = Database(postgres_url(f"{database_url}?options=-c%20role%3Dkeepstep_owner"), pool_size=1)
    schema.upgrade(owner)
    owner.dispose()
    yield database_url.partition("@")[2]
    for role in ROLES:
        db.run(sa.text(f"drop owned by {role} cascade"), {})
        admin.run(sa.text(f"drop role {role}"), {})


def test_each_role_can_do_its_part_and_no_more(
    divided: str, broker_url: str, start_worker: StartWorker, db: Database
) -> None:
    app, view = (f"postgresql://{role}@{divided}" for role in ROLES[:2])
    start_worker(env={"KEEPSTEP_DATABASE_URL": app})
    with Client(app, broker_url, workflows=flows.ALL) as client:
        client.start("ten", "A", {})
        assert client.wait("ten", "A", timeout=20).status == "completed"
        client.start("approve", "B", {}, delay=3600)
        client.cancel("approve", "B", actor="ann")
        with pytest.raises(sa.exc.ProgrammingError, match="must be owner"):
            client.db.run(sa.text("drop table keepstep.cases"), {})
    with Client(view, broker_url, workflows=flows.ALL) as viewer:
        assert {case.thread_id for case in viewer.list()} == {"A", "B"}
        assert viewer.get("ten", "A").status == "completed"
        assert viewer.history("ten", "A")
        assert viewer.calls("ten", "A")
        assert "cancelled" in str(viewer.why("approve", "B"))
        assert list(examine(Patient(client=viewer, settings=viewer.settings)))
        exporter = Exporter(viewer)
        exporter.look()
        assert exporter._up == 1
        for act in (lambda: viewer.start("ten", "C", {}), lambda: viewer.cancel("ten", "A")):
            with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
                act()
