"""Branches: a fan-out's cases, its join, what fails, what is left behind; run in the test's own process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep.checkpoint import branches as branch_rows
from keepstep.checkpoint import joins, retention
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Parent
from keepstep.steps.errors import NotRetryable
from keepstep.testing.runner import Runner
from tests import branch_flows
from tests.support.hand import LIMITS


@pytest.fixture
def runner(database_url: str) -> Iterator[Runner]:
    with Runner(database_url, workflows=branch_flows.ALL) as runner:
        yield runner


def start(runner: Runner, *does: str, thread_id: str = "A", **state: Any) -> Any:
    items = [{"n": n, "does": what} for n, what in enumerate(does)]
    return runner.start("fanning", thread_id, {"over": items, **state})


def children(runner: Runner, **filters: Any) -> dict[str, str]:
    """Status by thread id, of all branches of the workflow."""
    found = runner.client.list(workflow="fanning.branches", limit=1000, **filters)
    return {case.thread_id: str(case.status) for case in found}


# ------------------------------------------------------------------------------------------------------------- results
def test_results_come_in_the_order_of_the_items(runner: Runner) -> None:
    case = start(runner, "double", "double", "double")
    runner.run()
    case = runner.get(case)
    assert (case.status, case.state["results"]) == ("completed", [0, 2, 4])
    assert case.state["log"] == ["begin", "after"]
    assert children(runner) == {f"A/work#1[{n}]": "completed" for n in range(3)}


def test_a_fan_out_over_nothing_is_over_at_once(runner: Runner) -> None:
    case = start(runner)
    runner.run()
    assert runner.get(case).state["results"] == []
    assert runner.get(case).status == "completed"
    assert children(runner) == {}


def test_names_children_and_their_whole_states(runner: Runner) -> None:
    runner.start("mixed", "M", {"n": 5})
    runner.run()
    case = runner.client.get("mixed", "M")
    assert case.status == "completed", runner.report()
    assert case.state["named"] == {"one": 2, "whole": 5, "two": 4}
    assert case.state["small"] == {"n": 5, "square": 25}
    assert case.state["several"] == [{"n": 2, "square": 4}, {"n": 3, "square": 9}]
    named = {c.thread_id for c in runner.client.list(workflow="mixed.branches")}
    assert named == {"M/one#1", "M/whole#1", "M/two#1"}
    of_child = [c.thread_id for c in reversed(runner.client.list(workflow="child"))]
    assert sorted(of_child) == ["M/child#3", "small-2", "small-2#7", "small-3", "small-3#7"]


def test_a_second_visit_and_a_rewind_make_new_children_with_new_keys(runner: Runner) -> None:
    case = start(runner, "double", "double", rounds=2)
    runner.run()
    assert runner.get(case).status == "completed"
    runner.client.rewind("fanning", "A", to=0, repeat_effects=True)
    runner.run()
    found = children(runner)
    assert set(found) == {f"A/work#{seq}[{n}]" for seq in (1, 4, 8, 11) for n in (0, 1)}
    assert set(found.values()) == {"completed"}
    runs = {runner.client.get("fanning.branches", thread_id).run for thread_id in found}
    assert len(runs) == 8


def test_branches_fan_out_themselves(runner: Runner) -> None:
    case = start(runner, "nest", "double")
    runner.run()
    assert runner.get(case).state["results"] == [[0, 2], 2]
    assert "A/work#1[0]/work#1[1]" in children(runner)


def test_a_branch_waits_for_a_signal_and_the_join_for_it(runner: Runner) -> None:
    case = start(runner, "ask", "double")
    runner.run()
    assert runner.get(case).status == "waiting"
    runner.client.signal("fanning.branches", "A/work#1[0]", "answer", 42)
    assert runner.get(case).status == "queued", "whoever sent the signal looks at the parent too"
    runner.run()
    assert runner.get(case).state["results"] == [42, 2]


def test_a_result_that_does_not_fit_the_field_holds_the_case(runner: Runner) -> None:
    case = start(runner, "double", "say", how={"into": "numbers"})
    runner.run()
    held = runner.get(case)
    assert held.status == "held"
    assert held.reason["why"] == "the branches' results don't fit"
    assert "/numbers/1" in held.reason["message"]
    told = runner.client.why("fanning", "A").commands
    assert [command.split()[1] for command in told] == ["retry", "skip", "retry"]
    runner.client.retry("fanning", "A")
    assert runner.get(case).status == "held", "what the branches came to is the same"
    runner.client.skip("fanning", "A", update={"numbers": [0, 1]})
    runner.run()
    assert runner.get(case).status == "completed"


def test_a_bad_result_is_mended_by_a_restart_of_its_branch_and_a_retry_of_the_case(runner: Runner) -> None:
    case = start(runner, "double", "ask", how={"into": "numbers"})
    runner.run()
    runner.client.signal("fanning.branches", "A/work#1[1]", "answer", "no number")
    runner.run()
    assert runner.get(case).status == "held"
    runner.client.restart("fanning.branches", "A/work#1[1]", repeat_effects=True)
    runner.run()
    runner.client.retry("fanning", "A")
    runner.run()
    assert runner.get(case).status == "waiting", "for the one that asks again"
    runner.client.signal("fanning.branches", "A/work#1[1]", "answer", 7)
    runner.run()
    assert runner.get(case).status == "completed"
    assert runner.get(case).state["numbers"] == [0, 7]


def test_a_restarted_branch_begins_with_its_own_step(runner: Runner) -> None:
    runner.start("mixed", "M", {"n": 5})
    runner.run()
    assert runner.client.restart("mixed.branches", "M/whole#1", repeat_effects=True).step == "whole"
    runner.run()
    assert runner.client.get("mixed.branches", "M/whole#1").state["result"] == 5


def test_large_values_and_what_looks_like_a_reference_go_through(runner: Runner) -> None:
    large = "x" * 100_000
    items = [{"n": 0, "text": large}, {"n": 1, "does": "say", "text": {"$blob": "mine"}}]
    case = runner.start("fanning", "A", {"over": items})
    runner.run()
    assert runner.get(case).status == "completed", runner.report()
    for number, item in enumerate(items):
        assert runner.client.get("fanning.branches", f"A/work#1[{number}]").state["item"] == item
    again = runner.start("fanning", "B", {"over": [{"n": n, "does": "echo", "text": large} for n in (1, 2)]})
    runner.run()
    assert runner.get(again).state["results"] == [large, large]


# ------------------------------------------------------------------------------------------------------------ failures
def test_a_branch_that_fails_cancels_the_others_and_fails_the_case_with_its_error(runner: Runner) -> None:
    case = start(runner, "ask", "fail", "ask")
    runner.run()
    failed = runner.get(case)
    assert failed.status == "failed"
    assert failed.error["type"] == "fail"
    assert failed.error["message"] == "branch A/work#1[1] failed: 1 can't be done"
    assert children(runner) == {
        "A/work#1[0]": "cancelled",
        "A/work#1[1]": "failed",
        "A/work#1[2]": "cancelled",
    }
    with pytest.raises(NotRetryable, match="rewind --to 1"):
        runner.client.retry("fanning", "A")
    runner.client.rewind("fanning", "A", to=1, repeat_effects=True)
    runner.run()
    assert runner.get(case).status == "failed"
    assert len(children(runner)) == 6, "all of them anew"
    runner.client.skip("fanning", "A", update={"results": []})
    runner.run()
    assert runner.get(case).status == "completed"


def test_errors_are_collected_beside_results(runner: Runner) -> None:
    case = start(runner, "double", "fail", "double", how={"on_error": "collect", "into": "collected"})
    runner.run()
    assert runner.get(case).status == "completed", runner.report()
    one, two, three = runner.get(case).state["collected"]
    assert (one, three["result"]) == ({"result": 0, "error": None}, 4)
    assert two["result"] is None
    assert two["error"] == {
        "type": "fail",
        "message": "1 can't be done",
        "status": "failed",
        "workflow": "fanning.branches",
        "thread_id": "A/work#1[1]",
    }


def test_a_held_branch_keeps_the_case_waiting_and_its_retry_lets_it_go_on(runner: Runner) -> None:
    case = start(runner, "double", "raise")
    runner.run(skip_time=True)
    assert runner.get(case).status == "waiting"
    assert children(runner)["A/work#1[1]"] == "held"
    told = runner.client.why("fanning", "A")
    assert "1 of its 2 branches" in told.sentence
    assert any("keepstep retry fanning.branches 'A/work#1[1]'" in command for command in told.commands)
    runner.client.skip("fanning.branches", "A/work#1[1]", update={"result": 7})
    runner.run()
    assert runner.get(case).state["results"] == [0, 7]


def test_a_cancelled_branch_counts_as_one_that_failed(runner: Runner) -> None:
    case = start(runner, "ask", "ask")
    runner.run()
    runner.client.cancel("fanning.branches", "A/work#1[0]", actor="me")
    assert runner.get(case).status == "failed"
    assert runner.get(case).error["type"] == "Cancelled"
    assert set(children(runner).values()) == {"cancelled"}


# ------------------------------------------------------------------------------------------------------ what is left
@pytest.mark.parametrize("verb", ["cancel", "rewind", "restart", "skip"])
def test_whatever_takes_a_case_away_from_its_branches_cancels_them(runner: Runner, verb: str) -> None:
    case = start(runner, "ask", "nest", "double")
    runner.client.pause("fanning", "A")
    runner.client.resume("fanning", "A")
    runner.run_until(step="begin", status="waiting", case=case)
    runner.run()
    more: dict[str, Any] = {"rewind": {"to": 0, "repeat_effects": True}, "restart": {"repeat_effects": True}}.get(
        verb, {}
    )
    getattr(runner.client, verb)("fanning", "A", **more)
    assert children(runner)["A/work#1[0]"] == "cancelled"
    assert runner.client.get("fanning.branches", "A/work#1[0]").error["type"] == "ParentLeft"


def test_a_nested_fan_out_is_cancelled_to_the_bottom(runner: Runner, db: Database) -> None:
    start(runner, "nest")
    runner.run_until(status="waiting")
    for _ in range(2):  # the branch fans out; its own branches are made, and not run yet
        message = runner._next()
        if "[0]/work" in message.thread_id:
            break
        from keepstep.checkpoint.ring import Delivery
        from keepstep.workers.execute import execute

        execute(runner._engine, Delivery(case=message.case, seq=message.seq))
    assert set(children(runner).values()) == {"waiting", "queued"}
    runner.client.cancel("fanning", "A")
    assert set(children(runner).values()) == {"cancelled"}
    assert branch_rows.left(db, 10) == []


def test_a_paused_case_begins_no_more_branches_and_a_resumed_one_does(runner: Runner) -> None:
    case = start(runner, "double", "ask", "double", how={"max_running": 1})
    runner.run()
    runner.client.pause("fanning", "A")
    runner.client.signal("fanning.branches", "A/work#1[1]", "answer", 1)
    runner.run()
    assert len(children(runner)) == 2
    runner.client.resume("fanning", "A")
    runner.run()
    assert runner.get(case).status == "completed"


# ---------------------------------------------------------------------------------------------------------- the window
def test_no_more_than_max_running_are_unfinished_at_a_time(runner: Runner) -> None:
    case = start(runner, *["ask"] * 5, how={"max_running": 2})
    runner.run()
    for n in range(5):
        waiting = children(runner, status="waiting")
        assert set(waiting) == {f"A/work#1[{m}]" for m in range(n, min(n + 2, 5))}
        runner.client.signal("fanning.branches", f"A/work#1[{n}]", "answer", n)
        runner.run()
    assert runner.get(case).state["results"] == list(range(5))


def test_a_list_that_is_longer_than_its_window_is_worked_off_by_a_cursor(runner: Runner, db: Database) -> None:
    runner.start("fanning", "A", {"over": [{"n": n} for n in range(1500)]})
    runner.run_until(status="waiting")
    assert db.all(sa.text("select made, total, max_running from keepstep.fans"))[0] == (1000, 1500, 1000)


# ------------------------------------------------------------------------------------------------------ crashes, races
def test_the_sweep_makes_what_was_not_made_and_joins_what_was_not_joined(runner: Runner, db: Database) -> None:
    started = start(runner, "double", "double")
    quiet = [joins.settle, joins.worth_a_look]
    joins.settle, joins.worth_a_look = (lambda *_, **__: None), (lambda *_, **__: False)  # it died just before
    try:
        runner.run()
        assert children(runner) == {}
        assert joins.undone(db, 10) == [started.id]
        joins.settle = quiet[0]
        runner.advance(seconds=6)
        assert set(children(runner).values()) == {"completed"}
        assert runner.get(started).status == "waiting"
        assert joins.undone(db, 10) == [started.id]
        runner.advance(seconds=600)
        assert runner.get(started).status == "completed"
    finally:
        joins.settle, joins.worth_a_look = quiet


def test_a_branch_that_failed_is_seen_by_the_sweep_if_nobody_followed_it_up(
    runner: Runner, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner.run()  # its sweep has looked for what was left undone before it began
    started = start(runner, "fail", "ask")
    with monkeypatch.context() as dead:
        dead.setattr(joins, "worth_a_look", lambda *_, **__: False)
        runner.run()
    assert runner.get(started).status == "waiting"
    assert joins.undone(db, 10) == [started.id]
    runner.advance(seconds=6)
    assert runner.get(started).status == "failed"


def test_cases_with_nothing_to_do_are_put_off_together(runner: Runner, db: Database) -> None:
    for number in range(5):
        start(runner, "ask", thread_id=f"idle-{number}")
    runner.run()
    ready = start(runner, "double", thread_id="ready")
    runner.run_until(status="waiting", case=ready)
    db.run(sa.text("update keepstep.heads set due_at = clock_timestamp() where workflow = 'fanning'"), {})
    db.run(sa.text("delete from keepstep.heads where workflow = 'fanning.branches' and status = 'queued'"), {})
    db.run(
        sa.text("update keepstep.cases set status = 'completed', finished_at = now() where thread_id like 'ready/%'"),
        {},
    )
    joins.put_off_idle(db, 2)
    due = "select count(*) as n from keepstep.heads where workflow = 'fanning' and due_at <= clock_timestamp()"
    assert db.all(sa.text(due))[0].n == 1
    assert joins.due(db, 10) == [ready.id]


def test_two_looks_at_once_join_once(runner: Runner, db: Database) -> None:
    started = start(runner, "ask")
    runner.run()
    with db.connect() as other:
        other.execute(sa.text("begin"))
        other.execute(sa.text("select from keepstep.heads where id = :id for update"), {"id": started.id})
        other.execute(sa.text("rollback"))
    db.run(
        sa.text("update keepstep.cases set status = 'cancelled', finished_at = now() where parent = :id"),
        {"id": started.id},
    )
    first, second = joins.look(db, started.id), joins.look(db, started.id)
    assert (first.joined, second.joined) == (True, False)


def test_only_the_end_that_matters_is_worth_a_look(runner: Runner, db: Database) -> None:
    started = start(runner, "ask", "ask")
    runner.run()
    at = Parent(case=started.id, seq=1)
    assert not joins.worth_a_look(db, at, failed=False), "another one runs"
    assert joins.worth_a_look(db, at, failed=True)
    assert not joins.worth_a_look(db, Parent(case=started.id, seq=0), failed=True), "it isn't this visit's"


def test_a_thread_id_that_is_taken_is_the_branch_s_error(runner: Runner) -> None:
    runner.start("child", "small-2", {"n": 9})
    case = runner.start("mixed", "M", {"n": 5})
    runner.run()
    failed = runner.get(case)
    assert failed.status == "failed"
    assert failed.error["type"] == "CaseExists"
    assert "'small-2' is taken" in failed.error["message"]


def test_branches_go_when_their_parent_goes_and_not_before(runner: Runner, db: Database) -> None:
    start(runner, "nest", "double")
    runner.run()
    assert retention.prune(db, 10) == []
    runner.advance(days=2)
    assert runner.client.list() == []
    for table in ("cases", "heads", "checkpoints", "fans", "branches"):
        assert db.all(sa.text(f"select count(*) from keepstep.{table}"))[0][0] == 0, table


def test_waiting_for_branches_costs_the_sweep_little(runner: Runner, db: Database) -> None:
    started = start(runner, "ask")
    runner.run()
    due = sa.text("select extract(epoch from due_at - clock_timestamp()) as s from keepstep.heads where id = :id")
    runner.advance(hours=2)
    assert 240 < db.all(due, {"id": started.id})[0].s <= 300


# --------------------------------------------------------------------------------------------------------------- loops
def test_a_loop_that_finds_no_end_is_held_and_a_retry_lets_it_go_round_once_more(runner: Runner) -> None:
    case = runner.start("looping", "L", {"to": 8})
    runner.run()
    held = runner.get(case)
    assert (held.status, held.state["seen"]) == ("held", 5)
    assert held.reason["why"] == "too many visits"
    assert "6th time" in held.reason["message"]
    for seen in (6, 7):
        runner.client.retry("looping", "L")
        runner.run()
        assert (runner.get(case).status, runner.get(case).state["seen"]) == ("held", seen)
    runner.client.rewind("looping", "L", to=7, repeat_effects=True)
    runner.run()
    assert runner.get(case).status == "completed", "what was before a rewind isn't counted"
    assert LIMITS.rows


def test_a_loop_within_its_visits_is_not_held(runner: Runner) -> None:
    case = runner.start("looping", "L", {"to": 5})
    runner.run()
    assert runner.get(case).status == "completed"
