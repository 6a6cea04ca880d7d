"""A worker that gets messages of workflows that it doesn't know says so once, with what to do."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep.steps.workflow import Workflow
from keepstep.workers.registry import Registry
from keepstep.workers.strangers import Strangers


class State(BaseModel):
    pass


def step(state: State, call: Any) -> None:
    """A step."""


def strangers() -> Strangers:
    flow = Workflow("our.claims", state=State)
    flow.step(step)
    return Strangers(Registry([flow]))


def told(caplog: pytest.LogCaptureFixture, one: Strangers, *shadows: str | None) -> list[str]:
    with caplog.at_level(logging.WARNING, logger="keepstep.step"):
        for shadow in shadows:
            one.notice(SimpleNamespace(shadow=shadow, delivery_info={"routing_key": "keepstep"}))
    return [record.getMessage() for record in caplog.records]


def test_an_unknown_workflow_is_told_once_with_its_queue(caplog: pytest.LogCaptureFixture) -> None:
    lines = told(caplog, strangers(), "theirs.a", "theirs.b", "others.a", "theirs.a")
    assert len(lines) == 2
    assert "workflow 'theirs', which isn't loaded here" in lines[0]
    assert "workflow 'others'" in lines[1]
    assert "If two services share queue keepstep: give each its own queues" in lines[0]


@pytest.mark.parametrize("shadow", ["our.claims.step", "our.claims.a.step.of.theirs", None, "", "keepstep"])
def test_our_own_workflows_and_messages_without_a_name_are_no_strangers(
    caplog: pytest.LogCaptureFixture, shadow: str | None
) -> None:
    assert told(caplog, strangers(), shadow) == []
