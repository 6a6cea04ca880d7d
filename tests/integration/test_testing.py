"""`keepstep.testing`: the runner, on a real database with time skipped; what judges a crash; the pytest plugin."""

from __future__ import annotations

import asyncio
import configparser
import importlib
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

import keepstep.testing as door
from keepstep import Client, Done, NotDone, Retry, Workflow, fail, finish, goto, sleep_until, wait_for
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.tables import metadata
from keepstep.config.settings import postgres_url
from keepstep.steps.errors import DefinitionError, UnknownCase
from keepstep.testing import Clock, NotATestDatabase, NotReached, Runner, fake_call, replaced
from keepstep.testing.backends import BROKER_VARIABLE, DATABASE_VARIABLE, Backends
from keepstep.testing.crash.effects import count, made
from keepstep.testing.crash.facts import Lived, Written
from keepstep.testing.crash.judgement import Mark, Measure, Verdict, judge
from keepstep.testing.crash.path import Visit
from keepstep.testing.crash.report import NotCrashSafe, Report
from keepstep.testing.crash.sameness import comparable, differences
from keepstep.testing.prepared import single
from keepstep.testing.witness import Witness
from tests import testing_flows
from tests.support import outside
from tests.support.hand import Hand
from tests.support.servers import TEMPLATE, Urls, copying
from tests.testing_flows import State, claims, safe

ROOT = Path(__file__).parents[2]
DAY = timedelta(days=1)
NOWHERE = "postgresql://nowhere/at_all"

MakeRunner = Callable[..., Runner]


@pytest.fixture(scope="module")
def tests_url(urls: Urls, admin: Database) -> Iterator[str]:
    """One database for the tests of this module: making one takes longer than most of them."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    admin.run(sa.text(f"create database {name} template {TEMPLATE} {copying(admin)}"), {})
    Clock(urls.database(name))
    with single(urls.database(name)) as db:
        outside.prepare(db)
    yield urls.database(name)
    admin.run(sa.text(f"drop database if exists {name} with (force)"), {})


@pytest.fixture
def db(tests_url: str) -> Iterator[Database]:
    """Nothing is in it but the tables."""
    with single(tests_url) as database:
        names = ", ".join(f"keepstep.{table.name}" for table in metadata.tables.values())
        database.run(sa.text(f"truncate effects, {names}"), {})
        yield database


@pytest.fixture
def make_runner(tests_url: str, db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeRunner]:
    """Makes runners on the database, where the outside is, too."""
    monkeypatch.setenv("KEEPSTEP_DATABASE_URL", tests_url)
    testing_flows.reminders.clear()
    runners: list[Runner] = []

    def make(*workflows: Any, **options: Any) -> Runner:
        runners.append(Runner(tests_url, workflows, **options))
        return runners[-1]

    yield make
    for runner in runners:
        runner.close()


def workflow(name: str, *functions: Any, **options: Any) -> Workflow:
    """A workflow of these steps."""
    made = Workflow(name, state=State, **options)
    for function in functions:
        made.step(name=function.__name__)(function)
    return made


def lambda_named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


# ------------------------------------------------------------------------------------------------------------ time
def test_an_approval_lets_the_case_go_on(make_runner: MakeRunner, db: Database) -> None:
    runner = make_runner(claims)
    case = runner.start(claims, "C-1", {})
    runner.run()
    assert (runner.get(case).status, runner.get(case).step) == ("waiting", "decide")
    runner.approve(case, actor="adjuster-7")
    assert runner.get(case).status == "queued", "nothing runs before it is asked to"
    runner.run()
    assert runner.get(case).status == "completed"
    assert runner.get(case).state["log"] == ["pull", "pay"]
    assert outside.raw_calls(db, "C-1") == {"pull": 1, "pay": 1}


def test_a_rejection_goes_elsewhere(make_runner: MakeRunner) -> None:
    runner = make_runner(claims)
    case = runner.start(claims, "C-1", {})
    runner.run_until("waiting")
    runner.reject(case, actor="adjuster-7", note="no")
    runner.run()
    assert runner.get(case).state["log"] == ["pull", "close"]


def test_a_deadline_of_two_weeks_with_its_reminders(make_runner: MakeRunner) -> None:
    runner = make_runner(claims)
    case = runner.start(claims, "C-1", {})
    began = runner.now()
    runner.advance(days=13, hours=23)
    assert runner.get(case).status == "waiting"
    assert testing_flows.reminders == ["remind approval"] * 4, "after 3, 6, 9 and 12 days"
    runner.advance(hours=1)
    assert runner.get(case).status == "sleeping"
    runner.advance(hours=1)
    case_now = runner.get(case)
    assert case_now.status == "completed"
    assert case_now.state["log"] == ["pull", "escalate", "close"]
    assert testing_flows.reminders[4:] == ["completed completed"]
    assert case_now.finished_at - began >= 14 * DAY


def test_what_comes_due_within_a_long_time_is_done_in_between(make_runner: MakeRunner) -> None:
    runner = make_runner(claims)
    case = runner.start(claims, "C-1", {})
    runner.advance(15 * DAY)
    events = runner.client.history(case.workflow, case.thread_id)
    ended = runner.get(case).finished_at
    assert [e.step for e in events] == ["start", "pull", "decide", "approval", "escalate", "close"]
    assert runner.now() - ended > timedelta(hours=22), "it ended after 14 days and an hour, not after 15 days"


def test_skipping_time_ends_at_a_wait_without_a_deadline(make_runner: MakeRunner) -> None:
    runner = make_runner(safe)
    case = runner.start(safe, "S-1", {})
    runner.run(skip_time=True)
    assert (runner.get(case).status, runner.get(case).step) == ("waiting", "ask")
    before = runner.now()
    runner.signal(case, "answer", 42)
    runner.run(skip_time=True)
    assert runner.get(case).status == "completed"
    assert timedelta(days=2) <= runner.now() - before < timedelta(days=2, hours=1)


def test_what_comes_due_while_the_runner_looks_is_not_missed(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine a short back-off is over between the look at what is due and the one at what will be."""
    runner = make_runner(safe)
    case = runner.start(safe, "S-1", {})
    runner.run()
    assert runner.get(case).status == "sleeping"
    looks = runner._sweep.round
    slow = iter([timedelta(days=3)])

    def look_slowly() -> None:
        looks()
        runner.clock.advance(next(slow, timedelta(0)))

    monkeypatch.setattr(runner._sweep, "round", look_slowly)
    runner.run(skip_time=True)
    assert (runner.get(case).status, runner.get(case).step) == ("waiting", "ask")


def test_reminders_without_a_deadline_are_no_reason_to_skip_time(make_runner: MakeRunner) -> None:
    def ask(state: Any, call: Any) -> Any:
        return wait_for("approval", remind_every=DAY)

    asking = workflow("asking", ask)
    asking.on("remind")(testing_flows.tell)
    runner = make_runner(asking)
    runner.start(asking, "A", {})
    runner.run(skip_time=True)
    runner.advance(days=3, hours=1)
    assert testing_flows.reminders == ["remind approval"] * 3


def test_a_deadline_is_by_the_moved_clock(make_runner: MakeRunner) -> None:
    seen: dict[str, Any] = {}

    def look(state: Any, call: Any) -> None:
        seen.update(deadline=call.deadline, cancelled=call.cancelled())

    flow = workflow("looking", look, timeout=timedelta(minutes=5))
    runner = make_runner(flow)
    runner.advance(days=365)
    runner.start(flow, "A", {})
    runner.run()
    assert timedelta(minutes=4) < seen["deadline"] - runner.now() <= timedelta(minutes=5)
    assert seen["cancelled"] is False


def test_a_start_that_is_delayed_and_a_sleep_until(make_runner: MakeRunner) -> None:
    runner = make_runner()

    def nap(state: Any, call: Any) -> Any:
        return sleep_until(runner.now() + 30 * DAY, then="wake")

    def wake(state: Any, call: Any) -> Any:
        return {"log": ["awake"]}

    flow = workflow("napping", nap, wake)
    runner = make_runner(flow)
    case = runner.start(flow, "A", {}, delay=timedelta(hours=2))
    runner.run()
    assert runner.get(case).seq == 0
    runner.advance(days=30)
    assert runner.get(case).status == "sleeping"
    runner.advance(hours=3)
    assert runner.get(case).state["log"] == ["awake"]


def test_a_case_past_its_retention_goes(make_runner: MakeRunner) -> None:
    runner = make_runner(claims)
    case = runner.start(claims, "C-1", {})
    runner.run()
    runner.approve(case, actor="adjuster-7")
    runner.run()
    runner.advance(days=29)
    assert runner.get(case).status == "completed"
    runner.advance(days=1)
    with pytest.raises(UnknownCase):
        runner.get(case)


def test_a_paused_case_sleeps_on(make_runner: MakeRunner) -> None:
    runner = make_runner(safe)
    case = runner.start(safe, "S-1", {})
    runner.run()
    runner.client.pause(safe, "S-1")
    runner.advance(days=1)
    assert runner.get(case).state["log"] == []
    runner.client.resume(safe, "S-1")
    runner.run()
    assert runner.get(case).state["log"][0] == "try_again"


# ------------------------------------------------------------------------------------------------------- run_until
def test_it_stops_before_a_step(make_runner: MakeRunner) -> None:
    runner = make_runner(claims)
    case = runner.start(claims, "C-1", {})
    runner.approve(case, actor="adjuster-7")  # before it is asked
    found = runner.run_until(step="pay")
    assert (found.status, found.state["log"]) == ("queued", ["pull"])
    runner.run()
    assert runner.get(case).status == "completed"


def test_a_status_that_is_not_reached_says_why(make_runner: MakeRunner) -> None:
    runner = make_runner(safe)
    runner.start(safe, "S-1", {})
    with pytest.raises(NotReached) as caught:
        runner.run_until("completed")
    message = str(caught.value)
    assert "safe/S-1 came to rest, and isn't completed." in message
    assert "skip_time=True" in message
    assert "safe/S-1 is sleeping at 'try_again'" in message
    assert 'raise OSError("the API is down")' in message
    assert "call_step.py" not in message, "only the lines of the user's own code"
    with pytest.raises(ValueError, match="queued"):
        runner.run_until("done")


def test_a_case_that_goes_round_and_round_is_told(make_runner: MakeRunner) -> None:
    def again(state: Any, call: Any) -> Any:
        return goto("again")

    flow = workflow("endless", again)
    runner = make_runner(flow, max_steps=50)
    runner.start(flow, "A", {})
    with pytest.raises(NotReached, match="50 steps were run, and there are more to do"):
        runner.run()


# ---------------------------------------------------------------------------------------------------------- errors
def test_what_a_step_raises_is_in_the_history_and_in_errors(make_runner: MakeRunner) -> None:
    def down(state: Any, call: Any) -> Any:
        raise OSError(f"down at attempt {call.attempt}")

    runner = make_runner(claims, replace={"claims.pull": down})
    case = runner.start(claims, "C-1", {})
    runner.run()
    assert runner.get(case).status == "sleeping"
    runner.advance(minutes=20)
    assert runner.get(case).failures == 2
    runner.run(skip_time=True)
    held = runner.get(case)
    assert (held.status, held.reason["why"]) == ("held", "retries ran out")
    history = runner.client.history(case.workflow, case.thread_id)
    assert [e.kind for e in history] == ["start", "raised", "raised", "raised", "held"]
    assert [str(e.error) for e in runner.errors] == [f"down at attempt {n}" for n in (1, 2, 3, 4)]
    assert "claims/C-1 pull#0 attempt 4 raised:" in str(runner.errors[-1])
    runner.client.retry(claims, "C-1")
    runner.run()
    assert len(runner.errors) == 5


def test_a_bad_result_holds_the_case_as_in_production(make_runner: MakeRunner) -> None:
    runner = make_runner(claims, replace={"claims.pull": lambda state, call: {"nonsense": 1}})
    case = runner.start(claims, "C-1", {})
    runner.run()
    assert runner.get(case).reason["why"] == "bad result"


@pytest.mark.parametrize(
    ("error", "raised"), [(AssertionError("not that amount"), AssertionError), (KeyboardInterrupt(), KeyboardInterrupt)]
)
def test_what_is_meant_for_the_test_reaches_it(make_runner: MakeRunner, error: BaseException, raised: Any) -> None:
    def check(state: Any, call: Any) -> Any:
        raise error

    runner = make_runner(claims, replace={"claims.pull": check})
    runner.start(claims, "C-1", {})
    with pytest.raises(raised):
        runner.run()


def test_pytest_fail_in_a_step_fails_the_test_but_an_assertion_of_the_step_is_its_own(make_runner: MakeRunner) -> None:
    def refuse(state: Any, call: Any) -> Any:
        pytest.fail("must not be called")

    def believe(state: Any, call: Any) -> Any:
        assert state.log, "not yet"

    one, two = workflow("one", refuse), workflow("two", believe)
    runner = make_runner(one, two)
    runner.start(one, "A", {})
    with pytest.raises(pytest.fail.Exception, match="must not be called"):
        runner.run()
    case = runner.start(two, "B", {})
    runner.run()
    assert runner.get(case).status == "sleeping"


def test_async_steps_and_what_they_raise(make_runner: MakeRunner) -> None:
    async def slowly(state: Any, call: Any) -> Any:
        await asyncio.sleep(0)
        if call.attempt == 1:
            raise OSError("down")
        return {"log": [await call.once_async("ask", asyncio.sleep, 0, "asked")]}

    flow = workflow("async", slowly)
    runner = make_runner(flow)
    case = runner.start(flow, "A", {})
    runner.run(skip_time=True)
    assert runner.get(case).state["log"] == ["asked"]
    assert [str(e.error) for e in runner.errors] == ["down"]


def test_a_hook_that_raises_is_called_again(make_runner: MakeRunner) -> None:
    calls: list[tuple[str, str]] = []
    flow = workflow("hooked", lambda_named("only", lambda state, call: fail("no")))

    @flow.on("failed")
    def told(case: Any, call: Any) -> None:
        calls.append((case.status, call.key))
        if call.attempt == 1:
            raise OSError("the webhook is down")

    runner = make_runner(flow)
    runner.start(flow, "A", {})
    runner.run()
    assert len(calls) == 1
    assert "hooked/A on_failed attempt 1 raised:" in str(runner.errors[0])
    runner.advance(minutes=1)
    assert len(calls) == 2
    assert len(set(calls)) == 1, "under the same key"


# ----------------------------------------------------------------------------------------------------- replacements
def test_a_replaced_step_keeps_its_options_and_the_original_is_left_alone(make_runner: MakeRunner) -> None:
    fake = Mock(return_value={"log": ["fake"]})
    before = dict(claims.steps)
    runner = make_runner("tests.testing_flows", replace={"claims.pull": fake})
    case = runner.start("claims", "C-1", {})
    runner.run()
    assert runner.get(case).state["log"] == ["fake"]
    assert fake.call_args.args[0] == State()
    assert claims.steps == before


def test_a_name_that_is_no_step_is_refused() -> None:
    with pytest.raises(DefinitionError, match=r"'claims\.pulll', which is no step\. The steps: claims\.pull, claims\."):
        Runner(NOWHERE, [claims], replace={"claims.pulll": lambda state, call: None})
    with pytest.raises(DefinitionError, match="no step 'pulll' to be replaced; its steps: pull, decide"):
        replaced(claims, {"pulll": lambda state, call: None})
    with pytest.raises(DefinitionError, match=r"no step 'pull\.verify'"):
        replaced(claims, {"pull.verify": lambda state, call: None})


def test_a_function_that_could_not_be_declared_is_refused() -> None:
    async def politely(state: Any, call: Any) -> None: ...

    with pytest.raises(DefinitionError, match="must take"):
        Runner(NOWHERE, [claims], replace={"claims.pull": lambda state: None})
    with pytest.raises(DefinitionError, match="not an async one"):
        Runner(NOWHERE, [safe], replace={"safe.book": politely})


def test_a_call_in_doubt_is_verified_by_a_replaced_verify(make_runner: MakeRunner) -> None:
    answers = [NotDone, Done({"log": ["found"]})]

    def lose(state: Any, call: Any) -> Any:
        raise TimeoutError("no answer came")

    flow = Workflow("doubtful", state=State, retry=Retry(attempts=3))
    flow.step(name="transfer", in_doubt=testing_flows.is_made)(lambda state, call: None)
    runner = make_runner(
        flow, replace={"doubtful.transfer": lose, "doubtful.transfer.verify": lambda state, call: answers.pop(0)}
    )
    case = runner.start(flow, "A", {})
    runner.run(skip_time=True)
    assert runner.get(case).state["log"] == ["found"]
    assert len(runner.errors) == 2


def test_a_transactional_step_writes_with_its_checkpoint(make_runner: MakeRunner, db: Database) -> None:
    def book(state: Any, call: Any) -> Any:
        outside.write(call.connection, call.thread_id, "book", call.key)
        if call.attempt == 1:
            raise OSError("rolled back")
        return finish()

    flow = Workflow("booking", state=State)
    flow.step(transactional=True)(book)
    runner = make_runner(flow)
    runner.start(flow, "A", {})
    runner.run(skip_time=True)
    assert outside.raw_calls(db, "A") == {"book": 1}


# ---------------------------------------------------------------------------------------------------------- client
def test_what_another_client_starts_is_run_too(make_runner: MakeRunner, tests_url: str) -> None:
    runner = make_runner(claims)
    with Client(tests_url, "redis://127.0.0.1:1/0", workflows=[claims]) as other:
        started = other.start(claims, "C-1", {})
        assert not started.rung
    runner.run()
    assert runner.get(started).status == "waiting"


def test_the_client_takes_part_in_a_transaction_and_waits(make_runner: MakeRunner, tests_url: str) -> None:
    runner = make_runner(claims)
    engine = sa.create_engine(postgres_url(tests_url))
    with engine.begin() as connection:
        started = runner.client.start(claims, "C-1", {}, connection=connection)
        runner.run()
    runner.run()
    assert runner.get(started).status == "waiting"
    runner.client.approve(claims, "C-1", actor="adjuster-7")
    assert runner.client.wait(claims, "C-1").status == "completed"
    engine.dispose()


def test_many_cases_are_run_and_the_one_that_is_meant_is_waited_for(make_runner: MakeRunner) -> None:
    runner = make_runner(claims, safe)
    first = runner.start(claims, "C-1", {})
    runner.start(safe, "S-1", {})
    assert runner.run_until("waiting", case=first).thread_id == "C-1"
    assert [node.pool for node in runner.client.nodes()] == ["runner"]
    runner.advance(days=20)
    assert [node.pool for node in runner.client.nodes()] == ["runner"], "it beats by the moved clock"


def test_a_database_in_use_is_refused_and_its_clock_left_alone(database_url: str) -> None:
    with single(database_url) as db:
        Hand(db).start()
        with pytest.raises(NotATestDatabase, match="holds cases or workers already"):
            Runner(database_url, [claims])
        assert db.all(sa.text("select to_regnamespace('keepstep_clock') as clock"))[0].clock is None


def test_missing_tables_are_made(urls: Urls, admin: Database) -> None:
    name = f"t_{uuid.uuid4().hex[:12]}"
    admin.run(sa.text(f"create database {name}"), {})
    with Runner(urls.database(name), [claims]) as runner:
        assert runner.client.counts() == {}
    admin.run(sa.text(f"drop database {name} with (force)"), {})


def test_a_second_runner_goes_on_where_the_first_left_off(make_runner: MakeRunner) -> None:
    with make_runner(claims) as first:
        case = first.start(claims, "C-1", {})
        first.run()
        first.advance(days=7)
    second = make_runner(claims)
    second.advance(days=7)
    assert second.get(case).status == "sleeping"


# ------------------------------------------------------------------------------------------------------- fake_call
def test_a_fake_call_is_what_a_step_sees() -> None:
    call = fake_call("safe", "S-1", "charge", attempt=2, detail={"row": 7}, cancelled=True)
    assert (call.attempt, call.detail, call.cancelled(), call.key_read) == (2, {"row": 7}, True, False)
    assert call.once("mail", lambda to: [to], "a@b.c") == ["a@b.c"]
    call.cost(usd=0.5)
    call.heartbeat({"row": 8})
    assert call.spent == {"usd": 0.5}
    assert call.headers == {"Idempotency-Key": fake_call("safe", "S-1", "charge").key}
    assert call.key_read
    assert call.key != fake_call("safe", "S-2", "charge").key
    with pytest.raises(RuntimeError, match="transactional=True"):
        _ = call.connection


# ------------------------------------------------------------------------------------------- the judge of crashes
def lived(log: list[str], *, status: str = "completed", key_read: bool = False, **more: Any) -> Lived:
    written = (
        Written(seq=0, kind="start", step="start", target="look_up", key_read=None),
        Written(seq=1, kind="step", step="look_up", target="charge", key_read=False),
        Written(seq=2, kind="step", step="charge", target="notify", key_read=key_read),
        Written(seq=3, kind="step", step="notify", target=None, key_read=True),
    )
    facts = {"thread_id": "T-1", "step": None, "why": {}, "written": written, "lost": ()}
    return Lived(status=status, state={"log": log}, **{**facts, **more})


CALLED = Visit(point="called", seq=1, nth=1, in_main=False)
LOST = ((1, "charge"),)


def measure(effects: Counter[Any] | None = None, *, key_read: bool = False, pure: Any = ()) -> Measure:
    clean = lived(["a"], key_read=key_read)
    return Measure(workflow=testing_flows.unsafe, clean=clean, effects=effects, ignore=[], pure=pure)


def verdict(m: Measure, case: Lived, effects: Counter[Any] | None = None) -> Verdict:
    return judge(m, CALLED, case, effects, killed=True)


def test_a_step_called_twice_under_no_key_is_unsafe_unless_it_is_said_to_be_pure() -> None:
    found = verdict(measure(), lived(["a"], lost=LOST))
    assert found.unsafe == (("charge", "unsafe: `charge` was called twice under no key"),)
    assert verdict(measure(pure=["charge"]), lived(["a"], lost=LOST)).mark is Mark.TWICE
    assert verdict(measure(key_read=True), lived(["a"], lost=LOST, key_read=True)).mark is Mark.TWICE


def test_effects_decide_where_somebody_counts_them() -> None:
    clean = measure(Counter({"k": 1}))
    assert verdict(clean, lived(["a"], lost=LOST), Counter({"k": 2})).mark is Mark.TWICE, "twice under one key"
    [(step, why)] = verdict(clean, lived(["a"], lost=LOST, key_read=True), Counter({"k": 1, "l": 1})).unsafe
    assert step == "charge"
    assert "read its key, but its effects were made under others: 2 effects were made, without a crash 1" in why
    [wrong] = verdict(clean, lived(["a"], lost=LOST), Counter()).wrong
    assert wrong == "0 effects were made, without a crash 1"
    assert "more effects than steps explain" in verdict(clean, lived(["a"]), Counter({None: 2})).unsafe[0][1]


def test_another_end_another_state_and_other_checkpoints_are_told() -> None:
    failed = lived(["a"], status="failed", why={"message": "no"})
    assert verdict(measure(), failed).wrong == ("it ended failed (no), without a crash completed",)
    assert verdict(measure(), lived(["a", "b"])).wrong[0].startswith("its state differs at /log")
    shorter = lived(["a"])
    shorter = lived(["a"], written=shorter.written[:3])
    assert "without a crash start#0, look_up#1, charge#2, notify#3" in verdict(measure(), shorter).wrong[0]


def test_only_a_step_whose_policy_is_to_ask_may_be_held() -> None:
    held = lived(["a"], status="held", step="call_customer", why={"why": "in doubt: nobody knows"}, lost=LOST)
    assert verdict(measure(), held).mark is Mark.WRONG
    asking = Measure(workflow=safe, clean=lived(["a"]), effects=None, ignore=[], pure=[])
    assert judge(asking, CALLED, held, None, killed=True).mark is Mark.HELD


def test_a_branch_that_is_lost_is_another_or_ends_otherwise_is_told() -> None:
    leaf = lived([], thread_id="T-1/leaf#1[0]")
    whole = Measure(**{**vars(measure()), "clean": lived(["a"], branches={"#1[0]": leaf, "#1[1]": leaf})})
    case = lambda **branches: lived(["a"], branches={f"#1[{n[1:]}]": one for n, one in branches.items()})  # noqa: E731
    assert verdict(whole, case(b0=leaf, b1=leaf)).wrong == ()
    assert verdict(whole, case(b0=leaf)).wrong == ("branch #1[1] was never begun",)
    assert (
        verdict(whole, case(b0=leaf, b1=leaf, b2=leaf)).wrong[0].startswith("branch #1[2] was begun, without a crash")
    )
    failed = lived([], status="failed", thread_id="T-1/leaf#1[1]", why={"message": "no"})
    [told] = verdict(whole, case(b0=leaf, b1=failed)).wrong
    assert told == "of branch T-1/leaf#1[1]: it ended failed (no), without a crash completed"
    cancelled = lived([], status="cancelled", written=())
    assert verdict(whole, case(b0=leaf, b1=cancelled)).wrong == (), "one that failed has others cancelled, or not yet"


def test_a_kill_of_a_branch_is_judged_by_what_the_branch_lost() -> None:
    leaf = lived([], thread_id="T-1/leaf#1[0]", lost=LOST)
    clean = lived(["a"], branches={"#1[0]": lived([])})
    whole = Measure(**{**vars(measure(pure=["charge"])), "clean": clean})
    at_leaf = Visit(point="called", seq=1, nth=1, in_main=False, place="#1[0]", workflow="unsafe")
    assert judge(whole, at_leaf, lived(["a"], branches={"#1[0]": leaf}), None, killed=True).mark is Mark.TWICE
    assert judge(whole, CALLED, lived(["a"], branches={"#1[0]": leaf}), None, killed=True).mark is Mark.FINE
    keyless = Measure(**{**vars(whole), "pure": []})
    found = judge(keyless, at_leaf, lived(["a"], branches={"#1[0]": leaf}), None, killed=True)
    assert found.unsafe == (("charge", "unsafe: `charge` was called twice under no key"),)
    assert found.thread_id == "T-1/leaf#1[0]"


def test_what_may_differ_is_left_out_and_the_thread_id_is_none() -> None:
    state = {"id": "T-1", "at": 1, "rows": [{"id": 1, "n": 1}, {"id": 2, "n": 2}], "a/b": 1}
    one = Lived(**{**vars(lived([])), "state": state})
    assert comparable(one, ["at", "/rows/*/id", "/a~1b", "/rows/1/n", "missing", "/id/deep"]) == {
        "id": "<thread id>",
        "rows": [{"n": 1}, {}],
    }
    assert differences({"a": [1, 2]}, {"a": [1, 3]}) == ["/a/1: 2 without a crash, 3 now"]
    assert differences({"a": 1}, {}) == ["/a: 1 without a crash, gone now"]


def test_effects_are_counted_from_pairs_and_from_mappings() -> None:
    assert count(lambda: [("A", "k"), ("A", "k"), ("A", None)]) == {"A": Counter({"k": 2, None: 1})}
    assert count(lambda: {"A": ["k"], "B": Counter({"k": 2})}) == {"A": Counter({"k": 1}), "B": Counter({"k": 2})}
    assert made(Counter({"k": 5, "l": 1, None: 2})) == 4


def test_the_message_names_the_steps_then_what_helps_then_the_table() -> None:
    verdicts = tuple(verdict(measure(), lived(["a"], lost=LOST)) for _ in range(15))
    report = Report(
        workflow="w", status="completed", steps=(("1", "charge"),), verdicts=verdicts, twice={}, seconds=1.0
    )
    message = str(NotCrashSafe(report))
    assert message.startswith("w isn't safe under crashes:\nunsafe: `charge` was called twice under no key (killed at")
    assert "What helps: hand over call.key" in message
    assert message.endswith("seq  step    called\n1    charge  WRONG")


# ---------------------------------------------------------------------------------------------------------- plugin
def test_the_plugin_imports_neither_sqlalchemy_nor_celery() -> None:
    heavy = "sqlalchemy", "celery", "kombu", "redis", "psycopg2", "alembic", "flower"
    code = f"import sys, keepstep.testing.plugin; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_the_plugin_is_where_the_entry_point_says() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    name, _, module = config["options.entry_points"]["pytest11"].strip().partition(" = ")
    plugin = importlib.import_module(module)
    assert name == "keepstep"
    assert {n for n in vars(plugin) if n.startswith("keepstep_")} == {
        "keepstep_servers",
        "keepstep_database_url",
        "keepstep_runner",
    }


def test_the_door_opens_to_all_it_names() -> None:
    assert all(getattr(door, name).__name__ == name for name in door.__all__)
    with pytest.raises(AttributeError):
        _ = door.nothing


def test_servers_of_its_own_start_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    flow = workflow("small", lambda_named("only", lambda state, call: None))
    monkeypatch.delenv(DATABASE_VARIABLE, raising=False)
    monkeypatch.delenv(BROKER_VARIABLE, raising=False)
    with Backends() as backends:
        with backends.database() as first, backends.database() as second:
            assert first != second
            with Runner(first, [flow]) as runner:
                case = runner.start(flow, "A", {})
                runner.run()
                assert runner.get(case).status == "completed"
            with single(second) as db:
                assert db.all(sa.text("select count(*) as n from keepstep.cases"))[0].n == 0
        with single(backends.postgres_url) as db:
            names = sa.text("select datname from pg_database where datname like 'keepstep_test%'")
            assert [row.datname for row in db.all(names)] == []
        assert backends.broker_url.startswith("redis://")


def test_named_servers_are_shared_by_number_under_xdist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw3")
    with Backends("postgresql://db/postgres", "redis://broker:6379/0") as backends:
        assert backends.broker_url == "redis://broker:6379/4"


def test_what_is_not_a_case_is_no_matter_for_the_witness() -> None:
    """A hook or step that is replaced by an object without a name keeps the engine's own name for it."""
    witness = Witness()
    flow = workflow("w", lambda_named("only", lambda state, call: None))
    flow.on("held")(Mock(side_effect=OSError("down")))
    [hook] = witness.watch(flow, ()).hooks["held"]
    case = SimpleNamespace(workflow="w", thread_id="A")
    with pytest.raises(OSError, match="down"):
        hook(case, SimpleNamespace(attempt=1))
    assert hook.__name__ == "hook"
    assert str(witness.errors[0]).startswith("w/A on_held attempt 1 raised:")
