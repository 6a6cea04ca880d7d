"""`crash_everywhere`: users' workflows, killed at every write point by real workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.testing import NotCrashSafe, crash_everywhere
from tests import testing_flows
from tests.support import outside
from tests.support.servers import BROKER_VARIABLE, DATABASE_VARIABLE, Urls

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
Made = Callable[[], list[tuple[str, str | None]]]


@pytest.fixture
def made(db: Database) -> Made:
    """Counts what was done outside."""
    outside.prepare(db)
    return lambda: [(row.thread_id, row.key) for row in db.all(sa.text("select thread_id, key from effects"))]


@pytest.mark.slow
def test_a_workflow_that_uses_its_keys_is_safe_at_every_point(database_url: str, broker_url: str, made: Made) -> None:
    report = crash_everywhere(
        testing_flows.safe,
        {},
        signals={"answer": 42},
        effects=made,
        ignore=["receipt"],
        database_url=database_url,
        broker_url=broker_url,
        timeout=60,
    )
    print(report)
    marks = {(v.step, v.visit.point, v.visit.nth): str(v.mark) for v in report.verdicts}
    assert report.ok
    assert report.status == "completed"
    assert report.kills >= 45, "some points are reached by a timer's message, and may be passed"
    for step in ("try_again", "charge", "book", "ask", "rest", "transfer"):
        assert marks[step, "claimed", 1] == "again"
        assert marks[step, "called", 1] == "twice"
        assert marks[step, "committed", 1] == "ok"
    assert marks["try_again", "called", 2] == "twice", "each attempt is killed"
    assert {marks["charge", point, n] for point in ("intended", "answered", "recorded") for n in (1, 2)} == {"twice"}
    assert marks["book", "written", 1] == "twice"
    assert marks["call_customer", "called", 1] == "held"
    assert report.twice == {
        "try_again": "under one key",
        "charge": "under one key",
        "book": "its transaction was rolled back",
        "ask": "under one key",
        "rest": "under one key",
        "transfer": "its verify looked first",
    }


@pytest.mark.slow
def test_branches_nested_ones_and_children_are_killed_at_every_point(
    database_url: str, broker_url: str, made: Made
) -> None:
    report = crash_everywhere(
        testing_flows.fanned,
        {},
        signals={"answer": 42},
        effects=made,
        ignore=["receipt", "/answer/child/receipt"],
        database_url=database_url,
        broker_url=broker_url,
        timeout=90,
    )
    print(report)
    marks = {(v.visit.place, v.step, v.visit.point): str(v.mark) for v in report.verdicts if v.visit.nth == 1}
    assert report.status == "completed"
    called = {(place, step): mark for (place, step, point), mark in marks.items() if point == "called"}
    assert called == {
        ("", "split"): "twice",
        ("", "close_up"): "twice",
        ("#1[1]", "leaf"): "twice",
        ("#1[2]", "asks"): "twice",
        ("#1[3]", "nests"): "twice",
        ("#1[3]#1[1]", "leaf"): "twice",
        ("#1[4]", "first"): "twice",
        ("#1[4]", "second"): "held",
    }
    fans = marks["", "split", "born"], marks["#1[3]", "nests", "born"], marks["#1[3]", "nests", "joined"]
    assert set(fans) <= {"ok", "again"}, "it may have been in a killed one's company before"
    assert marks["#1[2]", "asks", "written"] == "twice"
    assert report.twice["asks"] == "its transaction was rolled back"


def test_a_branch_whose_effect_is_made_twice_is_named(database_url: str, broker_url: str, made: Made) -> None:
    with pytest.raises(NotCrashSafe) as caught:
        crash_everywhere(
            testing_flows.spoilt,
            {},
            effects=made,
            points=["called"],
            database_url=database_url,
            broker_url=broker_url,
            timeout=60,
        )
    assert list(caught.value.report.unsafe) == ["spoil"]
    assert "`spoil` was called twice under no key: 3 effects were made, without a crash 2" in str(caught.value)


def test_an_effect_that_is_made_twice_names_its_step(database_url: str, broker_url: str, made: Made) -> None:
    with pytest.raises(NotCrashSafe) as caught:
        crash_everywhere(
            testing_flows.unsafe,
            {},
            effects=made,
            ignore=["receipt"],
            points=["claimed", "called"],
            database_url=database_url,
            broker_url=broker_url,
            timeout=60,
        )
    message = str(caught.value)
    assert "unsafe: `charge` was called twice under no key: 3 effects were made, without a crash 2" in message
    assert "killed at 'called'" in message
    assert "call.key" in message
    assert list(caught.value.report.unsafe) == ["charge"]
    assert caught.value.report.twice["look_up"] == "no effect was counted twice"


def test_a_step_that_could_make_its_effect_twice_is_named_though_nobody_counts(
    database_url: str, broker_url: str, db: Database
) -> None:
    outside.prepare(db)
    with pytest.raises(NotCrashSafe) as caught:
        crash_everywhere(
            testing_flows.unsafe,
            {},
            pure=["look_up"],
            ignore=["receipt"],
            points=["called"],
            database_url=database_url,
            broker_url=broker_url,
            timeout=60,
        )
    assert caught.value.report.unsafe == {"charge": "unsafe: `charge` was called twice under no key"}


def test_a_result_that_depends_on_a_crash_is_told(database_url: str, broker_url: str) -> None:
    with pytest.raises(NotCrashSafe, match="its state differs at /log"):
        crash_everywhere(
            testing_flows.losing, {}, points=["called"], database_url=database_url, broker_url=broker_url, timeout=60
        )


@pytest.mark.slow
def test_the_examples_of_the_documentation_run(tmp_path: Path, urls: Urls) -> None:
    """Each block of docs/testing.md that begins with a file's name is that file."""
    for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        (tmp_path / name).write_text(code)
    assert len(list(tmp_path.glob("test_*.py"))) == 3
    plugins = entry_points(group="pytest11", name="keepstep")  # there once keepstep is installed anew
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rP", *([] if plugins else ["-p", "keepstep.testing.plugin"])],
        cwd=tmp_path,
        env={**os.environ, DATABASE_VARIABLE: urls.postgres, BROKER_VARIABLE: urls.valkey},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    assert "pay: under one key" in done.stdout
