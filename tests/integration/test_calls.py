"""Recorded calls on the real database: called once, whatever happens to the attempt; fenced, and holding nothing."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint import ledger, reads, recovery
from keepstep.checkpoint.claims import Claim
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ledger import total
from keepstep.checkpoint.ring import Ring
from keepstep.steps.call import Call
from keepstep.steps.errors import BadState, CallMismatch, DatabaseUnavailable, LeaseLost, UnknownCase
from keepstep.steps.keys import idempotency_key, once_key
from keepstep.workers import make_call as making
from keepstep.workers.make_call import make_call
from tests import ledger_flows as flows
from tests.acceptance.cli import Cli
from tests.integration.test_hot_path import OneSession
from tests.support.eventually import eventually
from tests.support.hand import LIMITS, Hand
from tests.support.stages import while_locked
from tests.support.trace import Trace
from tests.support.worker import ROOT

KNOWN = json.dumps({workflow.name: 1 for workflow in flows.ALL})


class Outside:
    """Something outside that counts how often it was called."""

    def __init__(self, answer: Any = "paid", then: Callable[[], Any] = lambda: None):
        self.answer, self.then, self.calls = answer, then, 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        self.then()
        return self.answer


class Attempts:
    """One case, of which attempt after attempt is claimed by hand."""

    def __init__(self, db: Database, workflow: Any = flows.paying):
        self.db, self.hand = db, Hand(db, known=KNOWN)
        self.ring: Ring = self.hand.start("A", workflow)

    def claim(self) -> Claim:
        claim = self.hand.claim(self.ring)
        assert claim is not None
        self.lease = claim.lease
        return claim

    def next(self, **options: Any) -> Call:
        """The call of the next attempt, after whoever had the lease was found dead."""
        self.take_away()
        return make_call(self.claim(), self.db, **options)

    def take_away(self) -> None:
        self.db.run(
            sa.text(
                "update keepstep.heads set status = 'queued', lease = null, owner = null, executor = null, "
                "deadline = null where status = 'running'"
            ),
            {},
        )

    def row(self, name: str = "charge") -> Any:
        rows = self.db.all(sa.text("select *, result::text as kept from keepstep.calls where name = :n"), {"n": name})
        return rows[0] if rows else None


@pytest.fixture
def attempts(db: Database) -> Attempts:
    return Attempts(db)


@pytest.fixture
def workflows() -> list[Workflow]:
    return flows.ALL


# ------------------------------------------------------------------------------------------------- called once, or not
@pytest.mark.parametrize("answer", ["paid", None, False, {"receipt": [1, "a\0b", "é"]}, [], 0])
def test_a_call_that_has_ended_is_not_made_again(attempts: Attempts, answer: Any) -> None:
    outside = Outside(answer)
    for _ in range(3):
        assert attempts.next().once("charge", outside, 7, currency="EUR") == answer
    assert outside.calls == 1
    row = attempts.row()
    assert (row.attempts, row.kept) == (1, json.dumps([answer], ensure_ascii=False, separators=(",", ":")))
    assert row.done_at >= row.begun_at


def test_a_call_that_began_and_did_not_end_is_made_again_under_the_same_key(attempts: Attempts) -> None:
    keys: list[str] = []

    def charge(idempotency_key: str) -> str:
        keys.append(idempotency_key)
        row = attempts.row()
        assert (str(row.key), row.attempts, row.kept, row.done_at) == (idempotency_key, len(keys), None, None)
        if len(keys) < 3:
            raise OSError("the line went dead")
        return "paid"

    for _ in range(2):
        call = attempts.next()
        with pytest.raises(OSError, match="dead"):
            call.once("charge", charge, idempotency_key=call.key_of("charge"))
    call = attempts.next()
    assert call.once("charge", charge, idempotency_key=call.key_of("charge")) == "paid"
    assert len(keys) == 3
    assert set(keys) == {str(once_key(call._run, 0, "pay", "charge"))}
    assert attempts.row().attempts == 3


def test_a_step_that_tries_again_by_itself_counts_its_tries(attempts: Attempts) -> None:
    call, failing = attempts.next(), Outside(then=lambda: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            call.once("charge", failing)
    assert call.once("charge", Outside("paid")) == "paid"
    assert attempts.row().attempts == 3
    assert call.once("charge", failing) == "paid"
    assert failing.calls == 2


def test_each_step_and_each_name_has_calls_of_its_own(attempts: Attempts) -> None:
    call = attempts.next()
    assert [call.once(f"charge {n}", Outside(n)) for n in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("when", ["in a later attempt", "in the same attempt", "after it failed"])
def test_other_arguments_under_the_same_name_are_refused_and_nothing_is_called(attempts: Attempts, when: str) -> None:
    call, outside = attempts.next(), Outside()
    if when == "after it failed":
        with pytest.raises(ZeroDivisionError):
            call.once("charge", Outside(then=lambda: 1 / 0), 7, currency="EUR")
    else:
        call.once("charge", Outside(), 7, currency="EUR")
    before = attempts.row()
    with pytest.raises(CallMismatch) as refused:
        (call if when == "in the same attempt" else attempts.next()).once("charge", outside, 7, currency="USD")
    assert outside.calls == 0
    assert refused.value.differing == ["currency"]
    for part in ("paying/A: pay#0 calls 'charge'", "(different: currency)", before.digest[:12], "another name"):
        assert part in str(refused.value)
    assert attempts.row() == before


# -------------------------------------------------------------------------------------------------- what isn't stored
@pytest.mark.parametrize("answer", [object(), "x" * 50_000_000, (n for n in range(3)), float("nan")])
def test_a_result_that_cannot_be_stored_leaves_the_call_unfinished(attempts: Attempts, answer: Any) -> None:
    with pytest.raises(BadState, match="the result of the call 'charge'"):
        attempts.next().once("charge", Outside(answer))
    assert (attempts.row().kept, attempts.row().done_at) == (None, None)
    assert attempts.next().once("charge", Outside("paid")) == "paid"


def test_the_largest_result_is_the_settings_business(attempts: Attempts) -> None:
    with pytest.raises(BadState, match="1,204 bytes of JSON, the most is 1,000"):
        attempts.next(max_bytes=1000).once("charge", Outside("x" * 1200))


# ------------------------------------------------------------------------------------------------------------ the fence
@pytest.mark.parametrize("taken", ["queued", "claimed by another", "cancelled", "held"])
def test_an_attempt_that_was_taken_away_calls_nothing(attempts: Attempts, client: Client, taken: str) -> None:
    call, outside = attempts.next(), Outside()
    _take(attempts, client, taken)
    with pytest.raises(LeaseLost, match=r"paying/A: pay#0 attempt 1 was taken away.*'charge' was not made"):
        call.once("charge", outside)
    assert outside.calls == 0
    assert attempts.row() is None


@pytest.mark.parametrize("taken", ["queued", "claimed by another", "cancelled"])
def test_what_comes_back_after_the_attempt_was_taken_away_is_kept_as_late(
    attempts: Attempts, client: Client, taken: str
) -> None:
    call = attempts.next()

    def charge() -> dict[str, str]:
        call.cost(usd=2.5)
        _take(attempts, client, taken)
        return {"receipt": "R-1\0"}

    with pytest.raises(LeaseLost, match="what the call 'charge' returned is kept as late"):
        call.once("charge", charge)
    assert attempts.row().kept is None
    assert call.spent == {}, "the cost is the late call's"
    late = [event for event in reads.history(attempts.db, attempts.ring.case) if event.kind == "late"]
    assert [event.detail["error"]["result"] for event in late] == [{"receipt": "R-1\0"}]
    listed = [one for one in client.calls("paying", "A") if one.outcome == "late"]
    assert [(one.name, one.key, one.cost) for one in listed] == [("charge", call.key_of("charge"), {"usd": 2.5})]
    if taken == "queued":
        assert attempts.next().once("charge", Outside("again")) == "again"
        assert attempts.row().attempts == 2


def test_a_late_result_that_is_large_leaves_a_trace_of_itself_only(attempts: Attempts) -> None:
    call = attempts.next()
    with pytest.raises(LeaseLost):
        call.once("charge", Outside("x" * 300_000, then=attempts.take_away))
    late = reads.history(attempts.db, attempts.ring.case)[-1]
    assert late.detail["error"]["result"] == "too large to be kept"


def _take(attempts: Attempts, client: Client, how: str) -> None:
    match how:
        case "claimed by another":
            attempts.take_away()
            attempts.claim()
        case "cancelled":
            client.cancel("paying", "A")
        case "held":
            attempts.db.run(
                sa.text("update keepstep.heads set status = 'held', lease = null, reason = cast('{}' as json)"), {}
            )
        case _:
            attempts.take_away()


def test_an_intent_that_meets_whoever_takes_the_attempt_away_waits_for_it_and_loses(
    attempts: Attempts, db: Database
) -> None:
    call, outside = attempts.next(), Outside()
    taking = "update keepstep.heads set status = 'queued', lease = null, owner = null, deadline = null"
    results = while_locked(db, [attempts.take_away, lambda: call.once("charge", outside)], lock=taking)
    assert isinstance(results[1], LeaseLost)
    assert (outside.calls, attempts.row()) == (0, None)


# ------------------------------------------------------------------------------------------------ trouble on the way
def test_statements_whose_replies_were_lost_are_repeated_without_harm(attempts: Attempts) -> None:
    claim = attempts.claim()
    given: dict[str, Any] = {"name": "charge", "key": uuid4(), "digest": "d" * 64}
    assert ledger.begin(attempts.db, claim, **given, tries=1) == ledger.begin(attempts.db, claim, **given, tries=1)
    begun = ledger.begin(attempts.db, claim, **given, tries=2)
    assert begun is not None
    assert begun.attempts == 2
    for _ in range(2):
        assert ledger.finish(attempts.db, claim, begun, result='["paid"]', cost={"usd": 1}, took=0.5)
    row = attempts.row()
    assert (row.attempts, row.kept, row.cost) == (2, '["paid"]', {"usd": 1})
    assert (row.done_at - row.begun_at).total_seconds() == pytest.approx(0.5, abs=0.01)


def test_connections_that_die_during_the_call_lose_nothing(attempts: Attempts, admin: Database) -> None:
    name = attempts.db.engine.url.database

    def cut() -> None:
        admin.run(sa.text("select pg_terminate_backend(pid) from pg_stat_activity where datname = :n"), {"n": name})

    call = attempts.next()
    cut()
    assert call.once("charge", Outside(then=cut)) == "paid"
    assert attempts.row().kept == '["paid"]'


def test_a_result_outlives_the_crash_that_took_the_unflushed_intent_with_it(attempts: Attempts) -> None:
    call = attempts.next()
    outside = Outside(then=lambda: attempts.db.run(sa.text("delete from keepstep.calls"), {}))
    assert call.once("charge", outside, 7) == "paid"
    assert attempts.next().once("charge", outside, 7) == "paid"
    assert outside.calls == 1


def test_a_time_limit_that_comes_while_a_result_is_written_waits_for_it(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Limit(Exception):
        pass

    def limit(*_: Any) -> None:
        raise Limit

    def interrupted(*args: Any, **kwargs: Any) -> bool:
        signal.raise_signal(signal.SIGUSR1)
        return finish(*args, **kwargs)

    finish = ledger.finish
    monkeypatch.setattr(ledger, "finish", interrupted)
    call, before = attempts.next(), signal.signal(signal.SIGUSR1, limit)
    try:
        with pytest.raises(Limit):
            call.once("charge", Outside())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert attempts.row().kept == '["paid"]'


# ------------------------------------------------------------------------------------------------------- what it costs
def test_nothing_is_held_while_the_function_runs(attempts: Attempts, admin: Database) -> None:
    held = sa.text(
        "select count(*) as n from pg_stat_activity where datname = :n and state <> 'idle' or "
        "datname = :n and exists (select from pg_locks l where l.pid = pg_stat_activity.pid)"
    )
    seen: list[tuple[int, int]] = []

    def look() -> None:
        pool: Any = attempts.db.engine.pool
        seen.append((pool.checkedout(), admin.all(held, {"n": attempts.db.engine.url.database})[0].n))

    attempts.next().once("charge", Outside(then=look))
    assert seen == [(0, 0)]


def test_a_recorded_call_is_two_round_trips_and_a_known_one_is_one(attempts: Attempts) -> None:
    call, statements = attempts.next(), []
    sa.event.listen(attempts.db.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    call.once("charge", Outside())
    assert len(statements) == 2
    call.once("charge", Outside())
    assert len(statements) == 3


@pytest.mark.parametrize(("workflow", "intent"), [(flows.paying, 0), (flows.careful_paying, 1)])
def test_the_result_is_durable_and_the_intent_where_the_policy_asks_for_it(
    database_url: str, workflow: Any, intent: int
) -> None:
    one = OneSession(database_url)
    call = Attempts(one.db, workflow).next()
    flushes = [one.flushes()]
    call.once("charge", Outside(then=lambda: flushes.append(one.flushes())))
    flushes.append(one.flushes())
    call.heartbeat({"rows": 1})
    flushes.append(one.flushes())
    assert [after - before for before, after in pairwise(flushes)] == [intent, 1, 0]
    one.db.dispose()


# ---------------------------------------------------------------------------------------------------------- heartbeats
def _head(db: Database) -> Any:
    return db.all(
        sa.text(
            "select detail, extract(epoch from heartbeat_due - clock_timestamp())::float8 as left from keepstep.heads"
        )
    )[0]


def test_a_heartbeat_pushes_its_deadline_and_tells_the_next_attempt(attempts: Attempts, db: Database) -> None:
    db.run(sa.text("update keepstep.heads set heartbeat_timeout = 30, heartbeat_due = clock_timestamp()"), {})
    call = attempts.next()
    assert call.detail is None
    call.heartbeat({"rows": 7})
    assert _head(db).detail == {"rows": 7}
    assert 29 < _head(db).left <= 30
    later = attempts.next()
    assert (call.detail, later.detail) == (None, {"rows": 7})
    later.heartbeat()
    assert _head(db).detail == {"rows": 7}


def test_without_a_heartbeat_timeout_there_is_no_deadline(attempts: Attempts, db: Database) -> None:
    attempts.next().heartbeat([1])
    assert (_head(db).detail, _head(db).left) == ([1], None)


def test_heartbeats_ask_now_and_then_unless_the_detail_has_changed(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"now": 100.0}
    monkeypatch.setattr(making.time, "monotonic", lambda: clock["now"])
    call, statements = attempts.next(), []
    sa.event.listen(attempts.db.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    for _ in range(100):
        call.heartbeat()
        call.heartbeat({"rows": 1})
    assert len(statements) == 2
    call.heartbeat({"rows": 2})
    assert len(statements) == 3
    clock["now"] += 0.3
    call.heartbeat({"rows": 2})
    call.heartbeat()
    assert len(statements) == 4


@pytest.mark.parametrize("taken", ["queued", "claimed by another", "cancelled"])
def test_an_attempt_that_was_taken_away_is_told_so_by_its_heartbeat(
    attempts: Attempts, client: Client, taken: str
) -> None:
    call = attempts.next()
    _take(attempts, client, taken)
    with pytest.raises(LeaseLost, match=r"pay#0 attempt 1 was taken away.*Let this error pass through"):
        call.heartbeat({"rows": 1})
    if taken != "cancelled":
        assert _head(attempts.db).detail is None


def test_a_heartbeat_that_cannot_be_written_is_left_to_the_next(
    attempts: Attempts, db: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    call, beat = attempts.next(), ledger.beat

    def away(*_: Any) -> bool:
        raise DatabaseUnavailable("away")

    monkeypatch.setattr(making, "BEAT", 0.0)
    monkeypatch.setattr(ledger, "beat", away)
    call.heartbeat({"rows": 1})
    assert "a heartbeat could not be written: away" in caplog.text
    monkeypatch.setattr(ledger, "beat", beat)
    call.heartbeat()
    assert _head(db).detail == {"rows": 1}


# ------------------------------------------------------------------------------------------------------ real processes
def test_a_worker_killed_between_two_calls_repeats_the_second_only(
    client: Client, start_worker: Any, trace: Trace
) -> None:
    start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.ledger_flows"})
    client.start("paying", "A", {"seconds": 30})
    line = eventually(lambda: trace.lines("A", "mail"), 20, "the second call is being made")[0]
    os.kill(line.pid, signal.SIGKILL)
    client.wait("paying", "A", 30)
    charged, mailed = client.get("paying", "A").state["receipts"]
    assert (charged["pid"], mailed["what"]) == (line.pid, "mail")
    assert [one.attempt for one in trace.lines("A", "charge")] == [1]
    assert [one.attempt for one in trace.lines("A", "mail")] == [1, 2]
    assert len({one.key for one in trace.lines("A", "mail")}) == 1
    once = {one.name: one for one in client.calls("paying", "A") if one.name}
    assert [(once[name].attempt, once[name].outcome, once[name].cost) for name in ("charge", "mail")] == [
        (1, "done", {"usd": 0.25}),
        (2, "done", {"usd": 0.25}),
    ]


def test_an_async_step_records_its_calls(client: Client, start_worker: Any) -> None:
    start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.ledger_flows"})
    client.start("polite", "A", {})
    client.start("long", "L", {})
    assert client.wait("polite", "A", 30).state["receipts"] == [7, "sent"]
    assert [one.name for one in client.calls("polite", "A")] == [None, "charge", "mail"]
    assert client.wait("long", "L", 30).state["seen"] == 4


# ------------------------------------------------------------------------------------------------------------- looking
def test_all_calls_of_a_case_are_listed_with_keys_and_costs(
    client: Client, start_worker: Any, trace: Trace, worker_env: dict[str, str]
) -> None:
    start_worker(env={"KEEPSTEP_WORKFLOWS": "tests.ledger_flows"})
    client.start("paying", "A", {})
    first = client.wait("paying", "A", 30)
    made = client.calls("paying", "A")
    assert [(one.seq, one.step, one.name, one.attempt, one.outcome) for one in made] == [
        (0, "pay", None, 1, "done"),
        (0, "pay", "charge", 1, "done"),
        (0, "pay", "mail", 1, "done"),
    ]
    assert made[0].key == str(idempotency_key(first.run, 0, "pay"))
    assert [one.key for one in made[1:]] == [str(once_key(first.run, 0, "pay", name)) for name in ("charge", "mail")]
    assert all(one.seconds is not None and 0 <= one.seconds < 5 for one in made)

    client.restart("paying", "A", repeat_effects=True)
    again = client.wait("paying", "A", 30)
    both = client.calls("paying", "A")
    assert [one.key for one in both] == [
        None,  # the run that it was made from is gone
        made[1].key,
        made[2].key,
        str(idempotency_key(again.run, 2, "pay")),
        *(str(once_key(again.run, 2, "pay", name)) for name in ("charge", "mail")),
    ]
    assert total(both)["usd"] == 1.0
    cli = Cli({**worker_env, "KEEPSTEP_WORKFLOWS": ""})
    printed = cli("calls", "paying", "A")
    assert "Total cost: " in printed.out
    assert "usd 1" in printed.out
    assert str(made[1].key) in printed.out
    assert [one["name"] for one in cli("calls", "paying", "A", "--json").json] == [one.name for one in both]
    cli("calls", "paying", "nobody").refuses(3)


def test_attempts_that_came_to_nothing_are_listed_too(attempts: Attempts, client: Client, db: Database) -> None:
    call = attempts.next()
    with pytest.raises(ZeroDivisionError):
        call.once("charge", Outside(then=lambda: 1 / 0))
    [running, unfinished] = client.calls("paying", "A")
    assert (running.outcome, running.name, running.attempt, running.seconds) == ("running", None, 1, None)
    assert (unfinished.outcome, unfinished.name, unfinished.seconds) == ("unfinished", "charge", None)
    given = recovery.release_lease(db, attempts.ring.case, attempts.lease, LIMITS, begun=True)
    assert given.rings
    db.run(sa.text("""update keepstep.attempts set cost = '{"usd": 2}'"""), {})
    made = client.calls("paying", "A")
    assert [(one.outcome, one.name) for one in made] == [("unfinished", "charge"), ("released", None)]
    assert made[1].cost == {"usd": 2}
    assert client.calls("paying", "A")[1].key == call.key
    with pytest.raises(UnknownCase):
        client.calls("paying", "nobody")


def test_the_examples_of_the_documentation_run(
    client: Client, start_worker: Any, tmp_path: Path, worker_env: dict[str, str]
) -> None:
    page = (ROOT / "docs" / "calls.md").read_text()
    (tmp_path / "documented_calls.py").write_text(
        "from types import SimpleNamespace as Outside\n"
        "bank = Outside(charge=lambda amount, idempotency_key: {'receipt': f'R-{amount}'})\n"
        "post = Outside(send=lambda customer, receipt, idempotency_key: None)\n"
        "model = Outside(ask=lambda prompt: {'text': prompt, 'usd': 0.01, 'tokens': 1840})\n"
        "archive = Outside(write=lambda customer, row: None)\n"
        + "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    )
    env = {"KEEPSTEP_WORKFLOWS": "documented_calls", "PYTHONPATH": f"{worker_env['PYTHONPATH']}:{tmp_path}"}
    start_worker(env=env)
    Cli({**worker_env, **env})("start", "orders", "O-1", "--state", '{"customer": "Ann", "amount": 7, "rows": 3}')
    case = client.wait("orders", "O-1", 30)
    assert case.status == "completed", case
    assert (case.state["receipt"], case.state["letter"]) == ("R-7", "Thank Ann for 7 EUR.")
    made = client.calls("orders", "O-1")
    assert [one.name or one.step for one in made] == ["pay", "charge", "mail", "write_letter", "letter", "export"]
    assert total(made) == {"usd": 0.01, "tokens": 1840}
