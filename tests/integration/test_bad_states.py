"""Whatever is wrong with a stored state holds its case there, with versions and JSON path, and a retry after the fix
goes on. What a model wouldn't take along is told before the deploy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from keepstep import Workflow, wait_for
from keepstep.checkpoint.database import Database
from keepstep.testing import Runner
from keepstep.workers.check import check
from keepstep.workers.registry import Registry

called: list[str] = []


class Line(BaseModel):
    name: str
    price: float = 0.0


class State(BaseModel):
    lines: list[Line] = []
    text: str = ""


class Needing(State):
    """A field that nobody gave a default, nor an upcaster, nor a version."""

    customer: str


def flow(version: int = 1, *, state: type[BaseModel] = State, upcasts: dict[int, Any] | None = None) -> Workflow:
    """Three checkpoints to its wait: a snapshot and two deltas."""
    made = Workflow("flow", state=state, schema_version=version)
    made.step(lambda state, call: {"lines": [Line(name="first")]}, name="one")
    made.step(lambda state, call: {"text": "a" * 3000}, name="two")
    made.step(lambda state, call: wait_for("go"), name="ask")

    @made.step
    def last(state: Any, call: Any) -> None:
        called.append(call.step)

    for number, function in (upcasts or {}).items():
        made.upcast(from_version=number)(function)
    return made


@pytest.fixture
def runs(database_url: str) -> Iterator[Callable[..., Runner]]:
    called.clear()
    made: list[Runner] = []

    def run(workflow: Workflow) -> Runner:
        made.append(Runner(database_url, [workflow]))
        return made[-1]

    yield run
    for runner in made:
        runner.close()


Runs = Callable[..., Runner]


def standing(runner: Runner) -> Any:
    case = runner.start("flow", "A", {})
    runner.run_until("waiting")
    return case


def held(runner: Runner, case: Any) -> dict[str, Any]:
    """Let it go on: it is held, for this reason, and nothing is called."""
    runner.signal(case, "go")
    runner.run()
    [found] = runner.client.list(workflow="flow", status="held")
    assert called == []
    assert found.reason is not None
    return found.reason


STORED = sa.text("select payload::text as payload from keepstep.checkpoints where seq = :seq")
DAMAGE = sa.text("update keepstep.checkpoints set payload = cast(:payload as json) where seq = :seq")

DAMAGES = {
    "a field of another type": (0, {"lines": 7, "text": ""}, "doesn't apply", "/lines/-"),
    "a value that no model takes": (
        1, [{"op": "add", "path": "/lines/-", "value": {"price": 1}}], "Field required", "/lines/0/name",
    ),
    "a change of what isn't there": (
        2, [{"op": "replace", "path": "/lines/5/name", "value": "x"}], "checkpoint 2: the stored", "/lines/5/name",
    ),
    "a change that is none": (2, {"not": "a list"}, "is no list of operations", ""),
    "an operation that isn't one": (2, [{"op": "move", "path": "/text"}], "unknown operation 'move'", "/text"),
    "a snapshot that isn't an object": (0, "text", "begins at 0 without a snapshot", ""),
    "a reference to nothing": (1, [{"op": "replace", "path": "/text", "value": {"$blob": 7}}], "are missing", ""),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGES)
def test_json_that_was_damaged_in_the_database_holds_its_case_until_it_is_mended(
    runs: Runs, db: Database, what: str
) -> None:
    seq, payload, words, path = DAMAGES[what]
    runner = runs(flow())
    case = standing(runner)
    [good] = db.all(STORED, {"seq": seq})
    db.run(DAMAGE, {"seq": seq, "payload": json.dumps(payload)})
    reason = held(runner, case)
    assert words in reason["message"]
    assert "stored as version 1" in reason["message"]
    assert reason["path"] == path
    told = check(db, Registry([flow()])).troubles
    assert ["version 1" in trouble.why for trouble in told] == [True], "check finds it, too"
    db.run(DAMAGE, {"seq": seq, "payload": good.payload})
    runner.client.retry("flow", "A")
    runner.run_until("completed", case=case)
    assert called == ["last"]


def raising(stored: dict[str, Any]) -> Any:
    return {**stored, "text": stored["txt"]}


BAD_CODE = {
    "an upcaster that raises": (flow(2, upcasts={1: raising}), "from version 1 to 2 at /txt", "/txt"),
    "an upcaster that returns a list": (flow(2, upcasts={1: lambda stored: [stored]}), "returned a list", ""),
    "an upcaster that returns what is no JSON": (
        flow(2, upcasts={1: lambda stored: {**stored, "lines": [{"name": "x", "price": float("nan")}]}}),
        "from version 1 to 2 at /lines/0/price", "/lines/0/price",
    ),
    "an upcaster whose state doesn't fit": (
        flow(2, upcasts={1: lambda stored: {**stored, "lines": [{}]}}),
        "State/lines/0/name: Field required (stored as version 1, upcast to 2)", "/lines/0/name",
    ),
    "a version that no upcaster begins at": (
        flow(3, upcasts={2: lambda stored: stored}), "from version 1 to 3: the oldest upcaster is from 2", "",
    ),
    "a field without a default, an upcaster or a version": (
        flow(state=Needing),
        "Needing/customer: Field required (stored as version 1, as this code's is: no schema_version was raised)",
        "/customer",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_CODE)
def test_code_that_can_not_load_a_state_holds_its_case_until_it_is_mended(runs: Runs, what: str) -> None:
    code, words, path = BAD_CODE[what]
    old = runs(flow())
    case = standing(old)
    before = old.get(case).state
    bad = runs(code)
    reason = held(bad, case)
    assert words in reason["message"]
    assert reason["path"] == path
    assert bad.get(case).state == before, "its stored state"
    good = runs(flow(3, upcasts={1: lambda stored: stored, 2: lambda stored: stored}))
    good.client.retry("flow", "A")
    good.run_until("completed", case=case)
    assert called == ["last"]


def test_a_stored_field_that_the_model_does_not_know_is_told_before_it_goes(runs: Runs, db: Database) -> None:
    class Richer(State):
        customer: str = "Ada"

    old = runs(flow(state=Richer))
    case = standing(old)
    db.run(
        sa.text("""update keepstep.checkpoints set payload = '[{"op": "add", "path": "/lines/-",
                          "value": {"name": "first", "price": 1, "size": 7}}]' where seq = 1"""),
        {},
    )
    checked = check(db, Registry([flow()]))
    [trouble] = checked.troubles
    assert (trouble.verdict, trouble.path) == ("warned", "/customer")
    assert "stored fields that State doesn't have would be lost: /customer, /lines/*/size" in trouble.why
    assert (checked.passes(), checked.passes(strict=True)) == (True, False)
    new = runs(flow())
    new.signal(case, "go")
    new.run_until("completed", case=case)
    assert "customer" not in new.get(case).state, "as it was told"
