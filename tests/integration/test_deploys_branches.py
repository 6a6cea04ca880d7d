"""A deploy while branches are open: older items are upcast, results of two versions come together in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from keepstep import BranchResult, Workflow, fan_out, start_child, wait_for
from keepstep.checkpoint import inflight
from keepstep.checkpoint.database import Database
from keepstep.testing import Runner
from keepstep.workers.check import check
from keepstep.workers.registry import Registry
from tests.integration.test_deploys import VERSIONS


class V1(BaseModel):
    names: list[str] = ["Wait Here", "Ada Lovelace", "Emmy Noether"]
    shape: str = "list"
    scores: Any = None


class Person(BaseModel):
    given: str
    family: str


class Score(BaseModel):
    points: int


class V2(BaseModel):
    """Its scores are objects, its names have two parts."""

    names: list[Person]
    shape: str
    scores: list[Score] | dict[str, Score] | list[BranchResult[Score]] | None = None


def begin(state: Any, call: Any) -> Any:
    if state.shape == "dict":
        return fan_out({f"n{n}": ("rate", name) for n, name in enumerate(state.names)}, into="scores", max_running=1)
    how: dict[str, Any] = {"on_error": "collect"} if state.shape == "collect" else {}
    return fan_out("rate", over=state.names, into="scores", max_running=1, **how)


def v1() -> Workflow:
    """A name is a text, a score is a number. The first branch waits for somebody."""
    flow = Workflow("flow", state=V1, schema_version=1)
    flow.step(begin)

    @flow.branch
    def rate(item: str, call: Any) -> Any:
        return wait_for("go", into="result") if item == "Wait Here" else len(item)

    flow.step(lambda state, call: wait_for("end"), name="rest")
    return flow


def split(name: str) -> dict[str, Any]:
    given, _, family = name.partition(" ")
    return {"given": given, "family": family}


def points(score: int) -> dict[str, int]:
    return {"points": score}


def v2(result: Callable[..., Any] | None = points, item: Callable[..., Any] | None = split) -> Workflow:
    flow = Workflow("flow", state=V2, schema_version=2)
    flow.step(begin)

    @flow.branch(aliases=["rate"])
    def judge(item: Person, call: Any) -> Any:
        return {"points": 100 + len(item.given)}

    flow.step(lambda state, call: wait_for("end"), name="rest")

    @flow.upcast(from_version=1)
    def state(stored: dict[str, Any]) -> dict[str, Any]:
        stored["names"] = [split(name) for name in stored["names"]]
        if isinstance(stored["scores"], dict):
            stored["scores"] = {name: {"points": one + 1000} for name, one in stored["scores"].items()}
        elif stored["scores"] is not None:
            stored["scores"] = [{"points": one + 1000} for one in stored["scores"]]
        return stored

    if item is not None:
        flow.upcast(from_version=1, item="judge")(item)
    if result is not None:
        flow.upcast(from_version=1, result="judge")(result)
    return flow


@pytest.fixture
def runs(database_url: str) -> Iterator[Callable[..., Runner]]:
    """Workers of this code, one after the other."""
    made: list[Runner] = []

    def run(*workflows: Workflow) -> Runner:
        made.append(Runner(database_url, list(workflows)))
        return made[-1]

    yield run
    for runner in made:
        runner.close()


Runs = Callable[..., Runner]


def begun(runner: Runner, **state: Any) -> Any:
    """A case whose first branch waits, and whose others have not begun."""
    case = runner.start("flow", "A", state)
    runner.run()
    first = runner.client.branches("flow", "A")[0]
    assert (runner.get(case).status, first.status) == ("waiting", "waiting")
    return case


def go(runner: Runner, payload: Any) -> None:
    """Answer the first branch's question."""
    first = runner.client.branches("flow", "A")[0]
    runner.client.signal("flow.branches", first.thread_id or "", "go", payload)
    runner.run()


@pytest.mark.parametrize(
    ("shape", "scores"),
    [
        ("list", [{"points": 7}, {"points": 103}, {"points": 104}]),
        ("dict", {"n0": {"points": 7}, "n1": {"points": 103}, "n2": {"points": 104}}),
        ("collect", [{"result": {"points": n}, "error": None} for n in (7, 103, 104)]),
    ],
)
def test_older_items_are_upcast_and_results_of_two_versions_come_together(
    runs: Runs, db: Database, shape: str, scores: Any
) -> None:
    case = begun(runs(v1()), shape=shape)
    new = runs(v2())
    go(new, 7)  # the question of version 1 is answered in its version; the other branches begin in 2
    assert new.get(case).state["scores"] == scores
    assert new.get(case).step == "rest"
    rows = db.all(VERSIONS)
    joined = next(row for row in rows if row.kind == "join")
    assert (joined.schema_version, joined.is_snapshot) == (2, True), "the whole state goes along"
    new.client.signal("flow", "A", "end")
    new.run()
    assert new.get(case).status == "completed"
    assert new.get(case).state["names"][1] == {"given": "Ada", "family": "Lovelace"}


def test_results_of_the_version_that_asked_go_into_the_state_as_it_is_and_are_upcast_with_it(
    runs: Runs, db: Database
) -> None:
    case = begun(runs(v1()), names=["Wait Here"])
    new = runs(v2())
    first = new.client.branches("flow", "A")[0]
    new.client.signal("flow.branches", first.thread_id or "", "go", 7)
    joined = next(row for row in db.all(VERSIONS) if row.kind == "join")
    assert (joined.schema_version, joined.is_snapshot) == (1, False)
    assert new.get(case).state["scores"] == [7], "as it is stored"
    new.run()
    new.client.signal("flow", "A", "end")
    new.run()
    assert new.get(case).state["scores"] == [{"points": 1007}], "by the state's upcaster, which knows what it holds"


def test_older_code_leaves_newer_results_to_newer_code_and_says_so(runs: Runs) -> None:
    old = runs(v1())
    case = begun(old)
    new = runs(v2())
    first, *_ = new.client.branches("flow", "A")
    new.client.signal("flow.branches", first.thread_id or "", "go", 7)
    new.run_until("completed", case=new.client.get("flow.branches", "A/rate#1[1]"))
    new.close()
    old = runs(v1())
    old.run()
    for _ in range(3):
        old.advance(minutes=1)
    assert [b.status for b in old.client.branches("flow", "A")] == ["completed"] * 3
    assert old.get(case).status == "waiting"
    told = old.client.why("flow", "A").sentence
    assert "A result of flow.branches is of version 2, and the live workers know version 1" in told
    newer = runs(v2())
    newer.advance(minutes=1)
    assert newer.get(case).state["scores"] == [{"points": 7}, {"points": 103}, {"points": 12}]


def test_a_result_that_can_not_be_upcast_holds_the_case_and_a_retry_after_the_fix_gathers_again(
    runs: Runs,
) -> None:
    def broken(result: Any) -> Any:
        return {"points": {"all": result}["marks"]}

    case = begun(runs(v1()))
    new = runs(v2(broken))
    go(new, 7)
    held = new.get(case)
    assert (held.status, held.reason["why"]) == ("held", "the branches' results don't fit")
    assert held.reason["path"] == "/result/marks"
    assert "flow result judge can't be brought from version 1 to 2 at /result/marks: broken()" in held.reason["message"]
    assert held.state["names"][0] == "Wait Here", "its stored state stands"
    again = runs(v2())
    assert again.client.retry("flow", "A").status == "waiting", "for its branches, as before"
    again.run()
    assert again.get(case).state["scores"][0] == {"points": 7}
    assert [event.kind for event in again.client.history("flow", "A") if event.kind == "join"] == ["join"]
    assert [branch.seq for branch in again.client.branches("flow", "A")] == [1, 1, 1], "no branch has run again"


def test_a_result_without_an_upcaster_that_does_not_fit_names_the_versions(runs: Runs) -> None:
    case = begun(runs(v1()))
    new = runs(v2(result=None))
    go(new, 7)
    held = new.get(case)
    assert (held.status, held.reason["path"].split("/")[1]) == ("held", "scores")
    assert "version" in held.reason["message"]


def test_an_item_that_can_not_be_upcast_holds_its_branch_with_versions_and_path(runs: Runs) -> None:
    case = begun(runs(v1()))
    new = runs(v2(item=None))
    go(new, 7)
    branch = new.client.get("flow.branches", "A/rate#1[1]")
    assert branch.status == "held"
    assert branch.reason is not None
    assert branch.reason["why"] == "the stored state doesn't fit the model"
    assert branch.reason["path"] == "/item"
    assert "(stored as version 1, upcast to 2)" in branch.reason["message"]
    assert branch.state["item"] == "Ada Lovelace"
    fixed = runs(v2())
    for _ in range(2):
        for held in fixed.client.branches("flow", "A", status="held"):
            fixed.client.retry("flow.branches", held.thread_id or "")
        fixed.run()
    assert fixed.get(case).state["scores"] == [{"points": 7}, {"points": 103}, {"points": 104}]


def test_check_tells_before_the_deploy_what_would_become_of_items_and_results(
    runs: Runs, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inflight, "BATCH", 2)
    old = runs(v1())
    names = ["Ada Lovelace", "Emmy Noether", "Sofia Kovalevskaya", "Wait Here", *["Lise Meitner"] * 5]
    old.start("flow", "A", {"names": names})
    old.run()
    [case] = inflight.each(db.all, {}, workflows=["flow"])
    assert case.fan is not None
    assert [one.result for one in case.fan.ended] == [12, 12, 18]
    assert [number for number, _, _ in case.fan.to_begin] == [4, 5, 6, 7, 8]
    assert check(db, Registry([v1()])).troubles == []
    assert check(db, Registry([v2()])).troubles == []

    def whys(code: Workflow) -> list[tuple[str, str, str]]:
        return [(t.workflow, t.why, t.path) for t in check(db, Registry([code])).troubles if t.verdict == "held"]

    item = "an item of its fan-out can't be loaded by rate (version 1 to 2)"
    assert whys(v2(item=None)) == [("flow", item, "/item")], "the one that waits has nothing to load any more"
    result = "what its branches came to doesn't fit V2/scores"
    assert whys(v2(result=None)) == [("flow", result, "/scores")]
    assert whys(v2(result=lambda stored: stored["marks"])) == [("flow", result, "/result")]


# ------------------------------------------------------------------------------------------------- states and children
class Whole1(BaseModel):
    name: str = "Ada Lovelace"
    named: dict[str, str] = {}


class Whole2(BaseModel):
    given: str
    family: str
    named: dict[str, str] = {}


def whole(version: int) -> Workflow:
    state = Whole1 if version == 1 else Whole2
    flow = Workflow("flow", state=state, schema_version=version)
    flow.step(lambda state, call: fan_out({"who": "who"}, into="named"), name="begin")

    def who(item: Any, call: Any) -> Any:
        return wait_for("go", into="result") if version == 1 else item.given

    who.__annotations__["item"] = state
    flow.branch(who)
    if version == 2:
        flow.branch(lambda item, call: None, name="again")
        flow.upcast(from_version=1)(lambda stored: {**split(stored.pop("name")), **stored})
    return flow


def test_a_branch_that_got_the_whole_state_gets_it_upcast_as_the_state_is(runs: Runs) -> None:
    case = begun(runs(whole(1)))
    new = runs(whole(2))
    first = new.client.branches("flow", "A")[0]
    new.client.restart("flow.branches", first.thread_id or "", repeat_effects=True)
    new.run()
    assert new.get(case).state == {"given": "Ada", "family": "Lovelace", "named": {"who": "Ada"}}


class Small1(BaseModel):
    n: int = 1


class Small2(BaseModel):
    many: int


class Parent(BaseModel):
    children: list[dict[str, int]] = []


def family(version: int) -> list[Workflow]:
    """A parent whose own version stays, and a child that changes."""
    child = Workflow("child", state=Small1 if version == 1 else Small2, schema_version=version)
    child.step(lambda state, call: wait_for("go") if call.thread_id == "later" else None, name="ask")
    if version == 2:
        child.upcast(from_version=1)(lambda stored: {"many": stored["n"]})
    flow = Workflow("flow", state=Parent)

    @flow.step
    def begin(state: Any, call: Any) -> Any:
        kids = [start_child(child, {"n": n}, thread_id=name) for n, name in enumerate(("now", "later"))]
        return fan_out(kids, into="children")

    return [flow, child]


def test_a_child_that_ended_before_the_deploy_is_upcast_by_its_own_workflow(runs: Runs) -> None:
    old = runs(*family(1))
    case = old.start("flow", "A", {})
    old.run()
    assert old.client.get("child", "now").status == "completed"
    new = runs(*family(2))
    new.client.signal("child", "later", "go")
    new.run()
    assert new.client.get("child", "later").state == {"n": 1}, "nothing has run there in the newer code"
    assert new.get(case).status == "completed"
    assert new.get(case).state["children"] == [{"many": 0}, {"many": 1}]
