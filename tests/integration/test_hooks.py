"""Hooks are called when a case is held or ends: at least once, under one key, and again if they raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client, DefinitionError, Retry, Workflow, fail
from keepstep.checkpoint import hooks, recovery
from keepstep.checkpoint.database import Database
from keepstep.steps.decide import IN_DOUBT, hold
from keepstep.testing.clock import Clock
from keepstep.workers.engine import Engine
from keepstep.workers.hooks import call_hooks, ring_hooks
from keepstep.workers.registry import Registry
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand
from tests.support.trace import Trace

hooked = Workflow("hooked", state=flows.State, retry=Retry(attempts=1))
hooked.step(name="one")(lambda state, call: None)
hooked.step(name="two")(lambda state, call: None)
calls: list[Any] = []


def _twice() -> Callable[..., None]:
    def tell(case: Any, call: Any) -> None:
        calls.append((case, call))

    return tell


for _ in range(2):  # of one name
    hooked.on("held", "failed", "completed", "cancelled")(_twice())


@hooked.on("completed")
async def tell_politely(case: Any, call: Any) -> None:
    calls.append((case, call))
    if case.state["value"] == "hook raises":
        raise OSError("the webhook is down")


@pytest.fixture
def hand(db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, hooked])
    calls.clear()
    return Hand(db, known='{"hooked": 1}')


@pytest.fixture
def steering(database_url: str, broker_url: str) -> Iterator[Client]:
    with Client(database_url, broker_url, workflows=[hooked]) as client:
        yield client


@pytest.fixture
def engine(steering: Client, db: Database) -> Engine:
    return Engine(settings=steering.settings, db=db, registry=steering.registry, bell=steering._bell)


def held(hand: Hand, ring: Any, seq: int = 0, message: str = "the API is down") -> None:
    claim = hand.claim(ring, seq)
    assert claim is not None
    hand.commit(claim, decision=hold("why", {"type": "OSError", "message": message}))


def call_all(engine: Engine) -> list[Any]:
    """Call the hooks that are due; what they were called with."""
    for hook in hooks.due(engine.db, ["hooked"], 10):
        call_hooks(engine, hook.id)
    return [call for _, call in calls]


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


# ---------------------------------------------------------------------------------------------------- what each is told
def test_each_function_and_each_event_has_a_key_of_its_own(hand: Hand, engine: Engine, steering: Client) -> None:
    ring = hand.start("A", hooked)
    for _ in range(2):
        held(hand, ring)
        steering.retry("hooked", "A")
    told = call_all(engine)
    assert len(told) == 4
    assert len({call.key for call in told}) == 4


def test_a_key_stays_when_the_case_is_restarted_before_the_next_try(
    hand: Hand, engine: Engine, steering: Client, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(hand, hand.start("A", hooked))
    [hook] = hooks.due(db, ["hooked"], 10)
    with monkeypatch.context() as lost:
        lost.setattr(hooks, "done", lambda *_: None)  # the worker dies before it can say so
        call_hooks(engine, hook.id)
    steering.restart("hooked", "A", repeat_effects=True)
    call_hooks(engine, hook.id)
    keys = [call.key for _, call in calls]
    assert keys[:2] == keys[2:]


def test_an_async_hook_is_run(hand: Hand, engine: Engine, db: Database) -> None:
    ring = hand.start("A", hooked)
    hand.step(ring, 0)
    hand.step(ring, 1)
    assert len(call_all(engine)) == 3
    assert db.all(sa.text("select 1 from keepstep.hooks")) == []


def test_an_async_hook_that_raises_is_called_again(hand: Hand, engine: Engine, db: Database) -> None:
    ring = hand.start("A", hooked, {"value": "hook raises"})
    hand.step(ring, 0)
    hand.step(ring, 1)
    call_all(engine)
    [left] = db.all(sa.text("select error->>'message' as message from keepstep.hooks"))
    assert left.message == "the webhook is down"


def test_a_hook_is_told_why_it_happened_though_the_case_has_gone_on_since(
    hand: Hand, engine: Engine, steering: Client
) -> None:
    ring = hand.start("A", hooked)
    held(hand, ring, message="first")
    steering.retry("hooked", "A")
    held(hand, ring, message="second")
    steering.retry("hooked", "A")
    hand.step(ring, 0, fail("third"))
    steering.retry("hooked", "A")
    steering.cancel("hooked", "A", actor="ann", reason="fourth")
    call_all(engine)
    told = [(case.status, call.event, call.reason.get("message") or call.reason["reason"]) for case, call in calls[::2]]
    assert told == [
        ("cancelled", "held", "first"),
        ("cancelled", "held", "second"),
        ("cancelled", "failed", "third"),
        ("cancelled", "cancelled", "fourth"),
    ]


def test_a_hook_is_told_why_while_the_case_still_stands_there(hand: Hand, engine: Engine) -> None:
    held(hand, hand.start("A", hooked))
    hand.step(hand.start("B", hooked), 0, fail("not eligible"))
    assert [call.reason["message"] for call in call_all(engine)[::2]] == ["the API is down", "not eligible"]


def test_a_hook_is_told_why_though_the_attempt_that_it_was_held_for_has_come_back(
    hand: Hand, engine: Engine, db: Database
) -> None:
    ring = hand.start("A", hooked)
    claim = hand.claim(ring)
    doubt = hold(IN_DOUBT, {"type": "OSError", "message": "no answer"}, doubt="begin")
    hand.commit(claim, decision=doubt)
    db.run(sa.text("update keepstep.heads set status = 'queued', reason = null"), {})
    assert call_all(engine)[0].reason["message"] == "no answer"


# ---------------------------------------------------------------------------------------------- what must not stop it
def test_a_case_that_is_held_because_its_checkpoints_are_damaged_has_its_hook_called(
    hand: Hand, engine: Engine, db: Database
) -> None:
    ring = hand.start("A", hooked, {"log": ["x" * 5000]})
    hand.step(ring, 0, {"value": 1})
    db.run(sa.text("delete from keepstep.checkpoints where seq = 0"), {})
    held(hand, ring, 1, message="the snapshot is missing")
    call_all(engine)
    assert [(case.thread_id, case.state) for case, _ in calls] == [("A", {})] * 2
    assert db.all(sa.text("select 1 from keepstep.hooks")) == []


def test_a_worker_that_does_not_know_the_workflow_puts_the_hook_back_for_soon(
    hand: Hand, engine: Engine, db: Database
) -> None:
    held(hand, hand.start("A", hooked))
    for _ in range(8):
        [hook] = hooks.due(db, ["hooked"], 10)
        call_hooks(Engine(settings=engine.settings, db=db, registry=Registry(), bell=engine.bell), hook.id)
        [left] = db.all(sa.text("select attempts, due_at - clock_timestamp() as wait from keepstep.hooks"))
        assert left.attempts == 0
        assert left.wait.total_seconds() < 10
        db.run(sa.text("update keepstep.hooks set due_at = clock_timestamp()"), {})
    assert len(call_all(engine)) == 2


def test_hooks_that_nobody_could_be_told_of_are_due_again_soon(
    hand: Hand, engine: Engine, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for thread_id in "ABC":
        held(hand, hand.start(thread_id, hooked))
    tried: list[int] = []
    monkeypatch.setattr(engine.bell, "ring_hook", lambda hook, _queue: tried.append(hook.id))
    ring_hooks(engine)
    assert len(tried) == 1, "the others would fare no better"
    waits = db.all(sa.text("select attempts, due_at - clock_timestamp() as wait from keepstep.hooks"))
    assert [(row.attempts, row.wait.total_seconds() < 10) for row in waits] == [(0, True)] * 3


def test_a_hook_has_a_time_limit(engine: Engine, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    held(hand, hand.start("A", hooked))
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(engine.bell.app, "send_task", lambda *_, **options: sent.append(options))
    ring_hooks(engine)
    assert [(options["soft_time_limit"], options["time_limit"]) for options in sent] == [(50, 60)]
