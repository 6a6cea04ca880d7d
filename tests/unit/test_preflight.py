"""Before a worker starts, it says what is wrong in a line that helps, and doesn't say it every second."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep.checkpoint import schema
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import DatabaseUnavailable
from keepstep.steps.workflow import Workflow
from keepstep.workers.preflight import wait_for_schema, warn_of_idle_queues
from keepstep.workers.registry import Registry

NOWHERE = "PostgreSQL at postgresql://u@h/db can't be reached, or can't work now: "
REFUSED = NOWHERE + 'connection to server at "h", port 5432 failed: Connection refused'


class State(BaseModel):
    pass


def nothing(state: State, call: Any) -> None:
    """A step."""


def registry() -> Registry:
    flow = Workflow("flow", state=State)
    flow.step(name="a", queue="slow-api")(nothing)
    return Registry([flow])


class Clock:
    """Seconds that pass only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def said(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *reasons: str) -> list[str]:
    """What is logged while the database answers with these, one after the other, and then works."""
    answers: Iterator[str] = iter(reasons)

    def check(_: Database) -> None:
        reason = next(answers, None)
        if reason is not None:
            raise DatabaseUnavailable(reason)

    monkeypatch.setattr(schema, "check", check)
    clock = Clock()
    with caplog.at_level(logging.INFO, logger="keepstep.node"):
        wait_for_schema(Database("postgresql+psycopg2://u@h/db"), sleep=clock.sleep, clock=clock)
    assert clock.now == 1000.0 + len(reasons)
    return [record.getMessage() for record in caplog.records]


def test_a_database_that_is_down_is_said_at_once_and_then_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert said(monkeypatch, caplog, *[REFUSED] * 25) == [f"waiting for the database: {REFUSED}"] * 3


def test_another_reason_is_said_at_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    starting = NOWHERE + "FATAL:  the database system is starting up"
    lines = said(monkeypatch, caplog, REFUSED, REFUSED, starting, starting, REFUSED)
    assert [line.removeprefix("waiting for the database: ") for line in lines] == [REFUSED, starting, REFUSED]


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ('FATAL:  role "me" does not exist', True),
        ('FATAL:  database "db" does not exist', True),
        ('FATAL:  password authentication failed for user "me"', True),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "me"', True),
        ("FATAL:  no such database: db", True),
        ("FATAL:  the database system is starting up", False),
        ("FATAL:  sorry, too many clients already", False),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", False),
        ("Connection refused", False),
    ],
)
def test_what_wont_pass_by_itself_is_said_with_the_setting_to_check(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, reason: str, hint: bool
) -> None:
    [line] = said(monkeypatch, caplog, NOWHERE + reason)
    assert line.endswith("Check KEEPSTEP_DATABASE_URL") == hint


@pytest.mark.parametrize(
    ("taken", "idle"),
    [
        ({"nosuch"}, ["nosuch"]),
        ({"slow-api", "nosuch", "another"}, ["another", "nosuch"]),
        ({"slow-api"}, []),
        ({"keepstep", "slow-api"}, []),
    ],
)
def test_a_queue_that_no_loaded_step_uses_is_named(
    caplog: pytest.LogCaptureFixture, taken: set[str], idle: list[str]
) -> None:
    with caplog.at_level(logging.WARNING, logger="keepstep.node"):
        warn_of_idle_queues(taken, registry())
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"no loaded step uses queue {name!r}; those of the loaded steps: slow-api" for name in idle]
