"""Logs on a database: written with the checkpoint that names them, and read by nobody but who looks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Literal
from uuid import uuid4

import pytest
import sqlalchemy as sa
from pydantic import BaseModel

from keepstep import Log, Workflow, finish, goto
from keepstep.checkpoint import commits, fold, reads
from keepstep.checkpoint.claims import Claim, claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.export import export
from keepstep.checkpoint.ring import Delivery
from keepstep.monitor import case_page
from keepstep.steps import chunks
from keepstep.steps.errors import BadPayload, CaseConflict, LogDamaged
from keepstep.testing import NotReached, Runner
from keepstep.workers import batch
from keepstep.workers.check import check
from keepstep.workers.execute import execute_batch
from keepstep.workers.registry import Registry
from tests import log_flows
from tests.acceptance.cli import Cli
from tests.log_flows import Chat, Message, message, numbers

ALL = list(range(40))


@pytest.fixture
def make_runner(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("KEEPSTEP_DATABASE_URL", database_url)
    runners: list[Runner] = []

    def make(*workflows: Workflow) -> Runner:
        runners.append(Runner(database_url, workflows or log_flows.ALL))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


@pytest.fixture
def runner(make_runner: Any) -> Runner:
    return make_runner()


@pytest.fixture
def db(runner: Runner) -> Database:
    return runner._engine.db


def ran(runner: Runner, workflow: str = "talking", thread_id: str = "A", **state: Any) -> reads.Case:
    """The case when it has come to rest."""
    case = runner.start(workflow, thread_id, state)
    runner.run()
    return runner.get(case)


def number(db: Database, statement: str) -> int:
    return int(db.all(sa.text(f"select {statement}"))[0][0])


def seen(db: Database) -> list[str]:
    """The statements about what is stored apart that are run from now on."""
    said: list[str] = []
    sa.event.listen(
        db.engine, "before_cursor_execute", lambda *a: said.append(a[2]) if "keepstep.blobs" in a[2] else None
    )
    return said


# ---------------------------------------------------------------------------------------------------------- a step
def test_a_case_whose_log_grows_has_all_of_it_at_the_end(runner: Runner, db: Database) -> None:
    case = ran(runner)
    assert (case.status, numbers(case.state), case.state["read"]) == ("completed", ALL, ALL)
    assert number(db, "count(*) from keepstep.blobs") >= 5
    longest = number(db, "max(octet_length(payload::text)) from keepstep.checkpoints")
    assert longest < 2 * chunks.SEAL
    assert numbers(runner.client.state("talking", "A", seq=17)) == ALL[:17]
    assert [one["path"] for one in runner.client.diff("talking", "A", 10, 13)] == ["/messages/-"] * 3
    assert runner.client.diff("talking", "A", 13, 10) == [
        {"op": "remove", "path": f"/messages/{n}"} for n in (12, 11, 10)
    ]
    shown = runner.client.get("talking", "A", last=2).state["messages"]
    assert (shown[0], [one["number"] for one in shown[1:]]) == ("… 38 items before", [38, 39])


def test_nothing_is_read_to_append_and_what_is_new_goes_with_the_commit(runner: Runner, db: Database) -> None:
    said, all_said = seen(db), list[str]()
    sa.event.listen(db.engine, "before_cursor_execute", lambda *a: all_said.append(a[2]))
    runner.start("quick_talk", "A", {})
    runner.run()
    said = list(said)
    assert len(said) == number(db, "count(*) filter (where json_typeof(value) = 'array') from keepstep.blobs")
    assert all("insert into keepstep.blobs" in one and "insert into keepstep.checkpoints" in one for one in said)
    assert len([one for one in all_said if "insert into keepstep.checkpoints" in one]) == 40


def test_a_batch_reads_nothing_and_writes_what_is_new_of_all_at_once(
    runner: Runner, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "SLOW", 60.0)  # a busy machine would have them part
    monkeypatch.setattr(batch, "TOGETHER", 60.0)
    cases = [runner.start("talking", f"A{n}", {"until": 30}) for n in range(8)]
    ids = [runner.get(case).id for case in cases]
    said = seen(db)
    for seq in range(20):
        assert None not in execute_batch(runner._engine, [Delivery(case=one, seq=seq) for one in ids])
    assert all("insert into keepstep.blobs" in one and "insert into keepstep.checkpoints" in one for one in said)
    assert len(said) == number(db, "count(distinct value::text) from keepstep.blobs") <= 10
    assert all(numbers(runner.get(case).state) == ALL[:20] for case in cases)


@pytest.mark.parametrize("workflow", ["quick_talk", "async_talk"])
def test_inline_and_async_steps_have_logs_too(runner: Runner, workflow: str) -> None:
    assert numbers(ran(runner, workflow).state) == ALL


def test_a_transactional_steps_log_is_rolled_back_with_it(runner: Runner, db: Database) -> None:
    assert ran(runner, "booking", "bad", read=[1]).status == "held"
    assert number(db, "count(*) from keepstep.blobs") == 0
    assert numbers(ran(runner, "booking", "good").state) == ALL


def test_no_connection_is_held_while_a_step_runs_or_after_it_has_read(make_runner: Any) -> None:
    held: list[int] = []
    looking = Workflow("looking", state=Chat)

    @looking.step
    def look(state: Chat, call: Any) -> Any:
        pool: Any = runner._engine.db.engine.pool
        if len(state.messages) < 40:
            state.messages.append(message(len(state.messages)))
            return goto("look")
        held.append(pool.checkedout())
        for one in state.messages:
            held.append(pool.checkedout())
            assert one.text
        return finish()

    runner = make_runner(looking)
    assert ran(runner, "looking").status == "completed"
    assert (set(held), len(held)) == ({0}, 41)


def test_what_was_there_can_not_be_changed_in_place(runner: Runner) -> None:
    case = ran(runner, "clumsy")
    assert case.status == "held"
    assert case.reason is not None
    assert (case.reason["why"], case.reason["type"]) == ("bad result", "BadOutcome")
    assert "messages[2] was changed in place" in case.reason["message"]


def test_a_recorded_call_takes_a_log_as_an_argument(runner: Runner) -> None:
    runner.start("remembering", "A", {})
    case = runner.run_until("completed", skip_time=True)
    assert case.state["read"] == [38, 39]


def test_children_and_branches_get_all_of_it_and_can_not_read_their_parents(runner: Runner, db: Database) -> None:
    case = ran(runner, "parent")
    assert case.status == "completed", runner.report()
    assert case.state["parts"] == list(range(45)), "what the child had in the end"
    [child] = runner.client.list(workflow="talking")
    state = runner.client.state("talking", child.thread_id)
    assert (numbers(state), state["read"]) == (list(range(45)), list(range(45)))
    assert runner.client.state("talking", child.thread_id, seq=0)["read"] == [40, 40], "the branches counted"


def test_a_person_is_shown_how_many_there_are_and_the_last_ones(runner: Runner, database_url: str) -> None:
    case = ran(runner)
    cli = Cli({"KEEPSTEP_DATABASE_URL": database_url, "KEEPSTEP_WORKFLOWS": ""})
    shown = cli("show", "talking", "A").out
    assert '"… 35 items before"' in shown
    assert [n for n in range(40) if f'"number": {n},' in shown] == [35, 36, 37, 38, 39]
    page = case_page.look(runner.client, case.id, seq=40)
    assert page.state["messages"][0] == "… 20 items before"
    assert [(one["op"], one["path"]) for one in page.change] == [("add", "/messages/-")]
    assert numbers(cli("show", "talking", "A", "--json").json["state"]) == ALL


# ------------------------------------------------------------------------------------------------------- operators
def test_it_survives_rewinds_forks_restarts_and_skips(runner: Runner, db: Database) -> None:
    ran(runner)
    client = runner.client
    client.rewind("talking", "A", to=25, repeat_effects=True)
    runner.run()
    assert numbers(runner.client.get("talking", "A").state) == ALL
    client.fork("talking", "A", at=30, new_thread_id="B", repeat_effects=True)
    client.erase("talking", "A", reason="a fork needs nothing of it")
    runner.run()
    case = client.get("talking", "B")
    assert (case.status, numbers(case.state), case.state["read"]) == ("completed", ALL, ALL)
    client.restart("talking", "B", repeat_effects=True)
    runner.run()
    assert numbers(client.get("talking", "B").state) == ALL
    client.rewind("talking", "B", to=20, repeat_effects=True)
    client.skip("talking", "B", update={"read": [1]}, to="listen")
    runner.run()
    assert client.get("talking", "B").status == "completed"
    client.rewind("talking", "B", to=20, repeat_effects=True)
    client.skip("talking", "B", update={"messages": [{"number": 7}]}, to="listen")
    runner.run()
    assert numbers(client.get("talking", "B").state) == [7]


def test_a_fork_of_what_is_damaged_makes_no_case(runner: Runner, db: Database) -> None:
    ran(runner)
    db.run(sa.text("delete from keepstep.blobs where digest = (select min(digest) from keepstep.blobs)"), {})
    with pytest.raises(LogDamaged):
        runner.client.fork("talking", "A", at=39, new_thread_id="B", repeat_effects=True)
    assert len(runner.client.list()) == 1


def test_it_goes_with_its_case(runner: Runner, db: Database) -> None:
    ran(runner)
    assert number(db, "count(*) from keepstep.blobs") > 0
    runner.advance(timedelta(days=2))
    assert runner.client.list() == []
    assert number(db, "count(*) from keepstep.blobs") == 0


def test_an_export_has_all_of_it(runner: Runner, db: Database) -> None:
    ran(runner)
    rows = [one["row"] for one in export(db, "talking", "A", secrets=True) if one["table"] == "blobs"]
    items = [item["number"] for row in rows if isinstance(row["value"], list) for item in row["value"]]
    assert sorted(items) == ALL[: len(items)]
    assert len(items) > 30


def test_starting_with_the_same_messages_is_the_same_start(runner: Runner) -> None:
    sent = [{"number": n, "text": "first"} for n in range(3)]
    ran(runner, until=20, messages=sent)
    assert runner.client.start("talking", "A", {"until": 20, "messages": sent}).new is False
    chat = Chat(until=20, messages=Log(Message(**one) for one in sent))
    assert runner.client.start("talking", "B", chat).new
    runner.run()
    assert runner.client.start("talking", "B", chat).new is False
    with pytest.raises(CaseConflict):
        runner.client.start("talking", "A", {"messages": sent[:2]})


def test_old_checkpoints_are_folded_and_nothing_of_the_log_goes(
    runner: Runner, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "WIDTH", 3)
    runner.start("endless", "A", {"until": 10**6})
    runner._max_steps = 80
    with pytest.raises(NotReached):
        runner.run()
    before = number(db, "count(*) from keepstep.blobs")
    assert fold.fold(db, "endless", 20) >= 20
    assert number(db, "count(*) from keepstep.checkpoints") <= 60
    assert number(db, "count(*) from keepstep.blobs") <= before
    assert numbers(runner.client.get("endless", "A").state) == list(range(80))
    runner.client.skip("endless", "A", update={"messages": []}, to="talk")
    with pytest.raises(NotReached):
        runner.run()
    assert fold.fold(db, "endless", 20) >= 20
    assert number(db, "count(*) from keepstep.blobs") < 1.5 * before, "the first log's chunks are named by nobody now"
    assert numbers(runner.client.get("endless", "A").state) == list(range(80))


# ------------------------------------------------------------------------------------------------- what can be wrong
def test_a_chunk_that_vanished_is_noticed_by_who_reads_and_the_case_is_held_at_once(
    make_runner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = make_runner(log_flows.talking, log_flows.clumsy)
    db = runner._engine.db
    runner.start("talking", "A", {})
    runner.run_until(step="listen")
    db.run(sa.text("create table hidden as select * from keepstep.blobs order by digest limit 1"), {})
    db.run(sa.text("delete from keepstep.blobs where digest in (select digest from hidden)"), {})
    runner.run()
    case = runner.client.get("talking", "A", last=1)
    assert (case.status, case.step, case.failures) == ("held", "listen", 0)
    assert case.reason is not None
    assert (case.reason["why"], case.reason["type"]) == ("damaged checkpoint", "LogDamaged")
    assert "1 parts of a log are missing, sha256 " in case.reason["message"]
    assert len(runner.errors) == 1, "it was not called again"
    assert numbers(ran(runner, thread_id="B").state) == ALL, "others go on"
    with pytest.raises(LogDamaged):
        runner.client.get("talking", "A")
    db.run(sa.text("insert into keepstep.blobs select * from hidden"), {})
    runner.client.retry("talking", "A")
    runner.run()
    assert runner.client.get("talking", "A").state["read"] == ALL


@pytest.mark.parametrize("policy", ["retry", "hold"])
def test_damage_that_the_step_wraps_in_an_error_of_its_own_is_still_damage(
    make_runner: Any, policy: Literal["retry", "hold"]
) -> None:
    wrapping = Workflow("wrapping", state=Chat)
    log_flows._one_more(wrapping)

    @wrapping.step(in_doubt=policy)
    def wrap(state: Chat, call: Any) -> Any:
        try:
            return {"read": [one.number for one in state.messages]}
        except Exception as error:
            raise ConnectionError("the tool failed") from error

    runner = make_runner(wrapping)
    runner.start("wrapping", "A", {})
    runner.run_until(step="wrap")
    runner._engine.db.run(sa.text("delete from keepstep.blobs"), {})
    runner.run()
    case = runner.client.get("wrapping", "A", last=1)
    assert (case.status, (case.reason or {})["why"]) == ("held", "damaged checkpoint")
    in_doubt = number(runner._engine.db, "count(doubt) from keepstep.heads")
    assert in_doubt == (policy == "hold"), "the call may have been made before"


def other_messages(**options: Any) -> Workflow:
    """The workflow `talking` as another version of the code has it: with other items."""

    class Other(BaseModel):
        number: int
        subject: str

    class Letters(BaseModel):
        until: int = 40
        messages: Log[Other] = Log()
        read: list[int] = []
        child: dict[str, Any] | None = None
        parts: list[int] = []

    made = Workflow("talking", state=Letters, **options)

    @made.step
    def talk(state: Letters, call: Any) -> Any:
        return None

    @made.step
    def listen(state: Letters, call: Any) -> Any:
        return {"read": [len(one.subject) for one in state.messages]}

    return made


def test_an_item_that_does_not_fit_the_new_code_holds_the_case_when_it_is_read(make_runner: Any) -> None:
    runner = make_runner(log_flows.talking)
    runner.start("talking", "A", {})
    runner.run_until(step="listen")
    new = other_messages()
    checked = check(runner._engine.db, Registry([new]))
    [trouble] = checked.troubles
    assert (trouble.verdict, checked.passes()) == ("held", False)
    later = make_runner(new)
    later.run()
    case = later.client.get("talking", "A", last=1)
    assert (case.status, (case.reason or {})["why"]) == ("held", "the stored state doesn't fit the model")
    assert "messages/0/subject, as it is stored, doesn't fit: Field required" in (case.reason or {})["message"]


def test_an_upcaster_changes_the_items(make_runner: Any) -> None:
    runner = make_runner(log_flows.talking)
    runner.start("talking", "A", {})
    runner.run_until(step="listen")
    new = other_messages(schema_version=2)

    @new.upcast(from_version=1)
    def with_subjects(stored: dict[str, Any]) -> dict[str, Any]:
        stored["messages"] = [
            {"number": one["number"], "subject": "s" * one["number"]} for one in Log.of(stored["messages"])
        ]
        return stored

    assert check(runner._engine.db, Registry([new])).passes()
    later = make_runner(new)
    later.run()
    case = later.client.get("talking", "A")
    assert (case.status, case.state["read"], numbers(case.state)) == ("completed", ALL, ALL)


def test_check_finds_a_chunk_that_vanished(make_runner: Any) -> None:
    runner = make_runner(log_flows.talking)
    runner.start("talking", "A", {})
    runner.run_until(step="listen")
    assert check(runner._engine.db, Registry([log_flows.talking])).passes()
    runner._engine.db.run(sa.text("delete from keepstep.blobs"), {})
    [trouble] = check(runner._engine.db, Registry([log_flows.talking])).troubles
    assert (trouble.verdict, trouble.why) == ("held", "its checkpoints are damaged")


def test_an_upcaster_that_reads_what_is_damaged_holds_the_case(make_runner: Any) -> None:
    runner = make_runner(log_flows.talking)
    runner.start("talking", "A", {})
    runner.run_until(step="listen")
    new = other_messages(schema_version=2)

    @new.upcast(from_version=1)
    def read(stored: dict[str, Any]) -> dict[str, Any]:
        stored["messages"] = list(Log.of(stored["messages"]))[:0]
        return stored

    runner._engine.db.run(sa.text("delete from keepstep.blobs"), {})
    later = make_runner(new)
    later.run()
    case = later.client.get("talking", "A", last=1)
    assert (case.status, (case.reason or {})["why"]) == ("held", "damaged checkpoint")


def test_only_what_stands_in_the_state_counts_for_its_size(make_runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTEP_MAX_STATE_BYTES", "20000")
    large = Workflow("large", state=Chat)

    @large.step
    def grow(state: Chat, call: Any) -> Any:
        state.messages.extend(message(n) for n in range(100))
        return None

    @large.step
    def too_large(state: Chat, call: Any) -> Any:
        state.messages.append(Message(number=1, text="x" * 70_000))
        return None

    runner = make_runner(large)
    assert runner._engine.settings.max_state_bytes == 20_000
    case = ran(runner, "large")
    assert (case.status, case.step, len(case.state["messages"])) == ("held", "too_large", 100)
    assert "an item of a log has 70,0" in (case.reason or {})["message"]


def test_a_late_result_keeps_what_was_appended(runner: Runner, db: Database) -> None:
    case = ran(runner, "asking", until=12)
    client = runner.client
    client.rewind("asking", "A", to=6, repeat_effects=True)
    at = client.get("asking", "A")
    late = claim(db, Delivery(case=case.id, seq=at.seq), runner._engine.claimant, lease := uuid4())
    assert late is not None
    assert late.lease == lease
    assert late.state is not None
    decision = decided(runner, late)
    client.cancel("asking", "A")
    commits.record_late(db, late, decision)
    [noted] = [one.detail["error"] for one in client.history("asking", "A") if one.kind == "late"]
    assert [one["path"] for one in noted["change"]] == ["/messages/-"] * 9
    assert noted["change"][0]["value"]["number"] == 6


def decided(runner: Runner, late: Claim) -> Any:
    """What a step comes to that appends so much that it is sealed."""
    from keepstep.checkpoint.blobs import fetching
    from keepstep.steps import state as states
    from keepstep.steps.decide import Returned, View, decide

    fetch = fetching(runner._engine.db.all, late.delivery.case)
    copy = states.load(Chat, late.state or {}, None, fetch)
    assert isinstance(copy, Chat)
    copy.messages.extend(message(len(copy.messages)) for _ in range(9))
    workflow = log_flows.asking
    view = View(workflow=workflow, step=workflow.first, before=late.state or {}, fetch=fetch)
    made = decide(view, Returned(value=None, copy=copy))
    assert made.blobs
    return made


def test_a_payload_that_looks_like_a_log_is_refused(runner: Runner) -> None:
    ran(runner, "asking", until=3)
    forged = {chunks.MARK: {"refs": [["0" * 64, 1, 0]], "tail": []}}
    with pytest.raises(BadPayload, match="keepstep's own"):
        runner.client.signal("asking", "A", "more", forged)
    runner.client.signal("asking", "A", "more", {"fine": 1})
    runner.run()
    assert runner.client.get("asking", "A").state["read"] == [0, 1, 2]


def test_secrets_in_items_are_hidden_wherever_they_are_shown(runner: Runner, db: Database) -> None:
    case = ran(runner, "telling", until=30)
    assert case.status == "held"
    assert "geheim" not in str(case.reason)
    mask = runner.client.mask("telling", "A")
    assert "geheim" not in str(mask.state(case.state))
    assert "geheim" not in str(mask.operations(runner.client.diff("telling", "A", 3, 20)))
    assert mask.text("geheim-1 and geheim-17 and geheim-29") == "*** and *** and ***"
    assert "geheim" not in str(list(export(db, "telling", "A")))
    assert "geheim-17" in str(list(export(db, "telling", "A", secrets=True)))
    assert "geheim-17" in str(case.state)
