"""Hooks are called when a case is held or ends: at least once, under one key, and again if they raise."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from keepstep import Client, DefinitionError, Workflow
from keepstep.checkpoint import hooks, recovery
from keepstep.checkpoint.database import Database
from keepstep.testing.clock import Clock
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand
from tests.support.trace import Trace


def told(trace: Trace, thread_id: str) -> list[str]:
    return [line.step for line in trace.lines(thread_id) if line.step.startswith("on_")]


def test_a_hook_is_called_when_its_case_ends(client: Client, start_worker, trace: Trace, db: Database) -> None:
    start_worker()
    client.start("once", "A", {})
    client.start("ten", "B", {})
    eventually(lambda: told(trace, "A"), 20)
    client.wait("ten", "B", 20)
    eventually(lambda: db.all(sa.text("select count(*) as n from keepstep.hooks"))[0].n == 0, message="it is done")
    assert told(trace, "A") == ["on_completed:completed"]
    assert told(trace, "B") == []


def test_a_hook_that_raises_is_called_again_under_the_same_key(
    clock: Clock, client: Client, start_worker, trace: Trace, db: Database
) -> None:
    start_worker()
    client.start("once", "A", {"value": "hook raises"})
    eventually(lambda: told(trace, "A"), 20)
    error = sa.text("select error->>'message' as message from keepstep.hooks")
    assert eventually(lambda: (r := db.all(error)) and r[0].message) == "the webhook is down"
    clock.advance(60)
    eventually(lambda: len(told(trace, "A")) == 2, 20)
    lines = [line for line in trace.lines("A") if line.step.startswith("on_")]
    assert [line.attempt for line in lines] == [1, 2]
    assert len({line.key for line in lines}) == 1


@pytest.mark.parametrize("how", ["by a recovery", "by its own worker"])
def test_a_case_that_is_held_has_its_hook_called(db: Database, how: str) -> None:
    hand = Hand(db)
    ring = hand.start("A", flows.once)
    if how == "by its own worker":
        hand.commit(hand.claim(ring), {"log": 7})
    else:
        for _ in range(LIMITS.max_crashes):
            hand.claim(ring)
            recovery.recover_executor(db, hand.claimant.owner, "1:1", LIMITS)
    [due] = hooks.due(db, ["once"], 10)
    assert (due.event, due.thread_id) == ("held", "A")
    assert hooks.due(db, ["once"], 10) == [], "it is put off while it is being called"
    assert hooks.find(db, due.id).attempt == 1
    hooks.done(db, due.id)
    assert hooks.find(db, due.id) is None


def test_hooks_of_workflows_that_a_node_does_not_know_are_left_to_others(db: Database) -> None:
    hand = Hand(db)
    hand.commit(hand.claim(hand.start("A", flows.once)), {"log": 7})
    assert hooks.due(db, ["another"], 10) == []
    assert len(hooks.due(db, ["once"], 10)) == 1


def test_a_wrong_hook_is_refused_when_the_module_is_imported() -> None:
    workflow = Workflow("w", state=flows.State)
    with pytest.raises(DefinitionError, match=r"test_hooks.py:\d+.*exploded"):
        workflow.on("exploded")(lambda case, call: None)
    with pytest.raises(DefinitionError, match=r"must take \(case, call\)"):
        workflow.on("held")(lambda case: None)
