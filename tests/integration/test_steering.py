"""An operator's verbs: what each does, what it keeps, what it refuses, and what the audit says afterwards."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import (
    BadState,
    CaseConflict,
    Client,
    UnknownCase,
    UnknownWorkflow,
    errors,
    finish,
    goto,
    wait_all,
    wait_for,
)
from keepstep.checkpoint import claims, commits, recovery, retention, waits
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import steering as sql
from keepstep.steps.keys import idempotency_key
from keepstep.steps.moves import LIVE, MOVES, Status, sources
from tests import flows
from tests.support.hand import LIMITS, Hand
from tests.support.stages import WF, ask, bring

YES = {"approved": True}

VERBS: dict[str, tuple[Any, type[errors.IllegalMove], set[str]]] = {
    "cancel": (lambda c: c.cancel(WF, "A"), errors.NotCancellable, set(sources("cancel"))),
    "pause": (lambda c: c.pause(WF, "A"), errors.NotPausable, set(map(str, LIVE))),
    "resume": (lambda c: c.resume(WF, "A"), errors.NotResumable, set()),
    "retry": (lambda c: c.retry(WF, "A"), errors.NotRetryable, set(sources("retry"))),
    "retry --new-key": (
        lambda c: c.retry(WF, "A", new_key=True, repeat_effects=True),
        errors.NotRetryable,
        set(sources("retry_anew")),
    ),
    "skip": (lambda c: c.skip(WF, "A"), errors.NotSkippable, set(sources("skip"))),
    "rewind": (lambda c: c.rewind(WF, "A", to=0, repeat_effects=True), errors.NotRewindable, set(sources("rewind"))),
    "restart": (lambda c: c.restart(WF, "A", repeat_effects=True), errors.NotRestartable, set(sources("restart"))),
}


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def audits(client: Client, thread_id: str = "A") -> list[tuple[str, Any, Any]]:
    events = [e for e in client.history(WF, thread_id) if e.kind == "audit"]
    return [(e.step, e.detail["actor"], e.detail["reason"]) for e in events]


def fates(db: Database) -> list[str | None]:
    return [row.fate for row in db.all(sa.text("select fate from keepstep.waits order by seq, name"))]


# ------------------------------------------------------------------------------------------------- the table of moves
@pytest.mark.parametrize("status", [str(s) for s in Status])
@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_does_what_the_table_of_moves_allows_and_refuses_the_rest_by_its_own_class(
    client: Client, hand: Hand, db: Database, verb: str, status: str
) -> None:
    act, refusal, legal = VERBS[verb]
    ring = bring(hand, client, status)
    audited = len(audits(client))
    if status in legal:
        after = act(client)
        now = client.get(WF, "A")
        assert (after.status, after.step, after.seq, after.paused) == (now.status, now.step, now.seq, now.paused)
        if verb != "pause":
            assert after.status in MOVES[verb.replace(" --new-key", "_anew")].targets
        assert len(audits(client)) == audited + 1
    else:
        with pytest.raises(refusal, match=f"approve/A: it is {status}") as refused:
            act(client)
        assert refused.value.status == status
        assert client.get(WF, "A").status == status
        assert len(audits(client)) == audited, "what is refused leaves no trace"
    assert db.one(sa.text("select count(*) as n from keepstep.heads where id = :id"), {"id": ring.case}).n == (
        client.get(WF, "A").status in LIVE
    )


@pytest.mark.parametrize("move", [*sql.PLACE, *sql.END])
def test_the_statements_themselves_are_guarded(client: Client, hand: Hand, db: Database, move: str) -> None:
    """Whatever the code above them believes: a head in a status that the move doesn't start from stays as it is."""
    for number, status in enumerate(sorted(LIVE - MOVES[move].sources)):
        ring = bring(hand, client, status, f"A{number}")
        params = {
            "id": ring.case, "seq": client.get(WF, f"A{number}").seq, "status": "queued", "target": "act",
            "queue": "q", "timeout": 1.0, "in_doubt": "retry", "heartbeat_timeout": None, "schema_version": 1,
        }  # fmt: skip
        for statements in (sql.PLACE, sql.END):
            if move in statements:
                assert db.one(statements[move], params) is None
        assert client.get(WF, f"A{number}").status == status


@pytest.mark.parametrize("move", sql.REVIVE)
@pytest.mark.parametrize("status", sorted(set(Status) - LIVE))
def test_only_what_the_table_allows_is_revived(
    client: Client, hand: Hand, db: Database, move: str, status: str
) -> None:
    ring = bring(hand, client, status)
    params = {
        "id": ring.case, "seq": client.get(WF, "A").seq, "target": "act", "queue": "q", "timeout": 1.0,
        "in_doubt": "retry", "heartbeat_timeout": None, "schema_version": 1, "overhead": 800,
    }  # fmt: skip
    assert db.run(sql.REVIVE[move], params) == (status in MOVES[move].sources)


def test_the_schema_knows_no_live_case_that_has_ended_and_no_ended_one_that_lives(
    client: Client, hand: Hand, db: Database
) -> None:
    bring(hand, client, "completed")
    bring(hand, client, "queued", "B")
    for change in ("heads set status = 'cancelled'", "cases set status = 'held'", "cases set finished_at = null"):
        with pytest.raises(sa.exc.IntegrityError):
            db.run(sa.text(f"update keepstep.{change}"), {})


@pytest.mark.parametrize("verb", VERBS)
def test_nobody_is_steered_who_is_not_there(client: Client, verb: str) -> None:
    with pytest.raises(UnknownCase, match="approve/A"):
        VERBS[verb][0](client)
    with pytest.raises(UnknownCase):
        client.fork(WF, "A", at=0, new_thread_id="B")


def test_the_audit_says_who_why_and_from_where(client: Client, hand: Hand) -> None:
    bring(hand, client, "held")
    client.retry(WF, "A", actor="ann", reason="the API is back")
    client.cancel(WF, "A", actor="bob", reason="withdrawn")
    assert audits(client) == [("retry", "ann", "the API is back"), ("cancel", "bob", "withdrawn")]
    [first, _] = [e for e in client.history(WF, "A") if e.kind == "audit"]
    assert first.detail["from"] == {"status": "held", "step": "ask", "seq": 0}


@pytest.mark.parametrize("text", ["a\0", "\ud800", "x" * 5000, 7])
def test_an_actor_or_a_reason_that_cannot_be_stored_is_refused_before_anything_happens(
    client: Client, hand: Hand, text: Any
) -> None:
    bring(hand, client, "queued")
    for named in ({"actor": text}, {"reason": text}):
        with pytest.raises(errors.BadAudit):
            client.cancel(WF, "A", **named)
    assert client.get(WF, "A").status == "queued"


# ------------------------------------------------------------------------------------------------------------- cancel
def test_a_cancelled_case_closes_its_waits_takes_no_signal_and_leaves_after_its_retention(
    client: Client, hand: Hand, db: Database
) -> None:
    bring(hand, client, "waiting")
    client.cancel(WF, "A")
    assert fates(db) == ["dropped"]
    assert client.waits(WF, "A") == []
    with pytest.raises(errors.CaseFinished, match="cancelled"):
        client.signal(WF, "A", "approval", YES)
    hand.start("B")
    client.cancel("ten", "B")
    expires = db.one(sa.text("select expires_at from keepstep.cases where thread_id = 'B'"), {}).expires_at
    assert (expires - client.get("ten", "B").finished_at).days == 1


def test_a_pruned_case_takes_its_audit_along(client: Client, hand: Hand, db: Database) -> None:
    hand.start("A")
    client.cancel("ten", "A")
    db.run(sa.text("update keepstep.cases set expires_at = clock_timestamp()"), {})
    assert [gone.cases for gone in retention.prune(db, 10)] == [1]
    assert db.all(sa.text("select 1 from keepstep.audit")) == []


TAKING = {
    "cancel": lambda c: c.cancel(WF, "A"),
    "skip": lambda c: c.skip(WF, "A"),
    "rewind": lambda c: c.rewind(WF, "A", to=0, repeat_effects=True),
    "restart": lambda c: c.restart(WF, "A", repeat_effects=True),
}


@pytest.mark.parametrize("verb", TAKING)
def test_a_running_step_is_told_and_its_late_result_is_kept_and_changes_nothing(
    client: Client, hand: Hand, db: Database, verb: str
) -> None:
    ring = hand.start("A", flows.approve)
    claim = hand.claim(ring)
    decision = hand.decide(claim, goto("done", value="receipt 7"))
    assert claims.still_held(db, claim)
    TAKING[verb](client)
    assert not claims.still_held(db, claim)
    assert hand.commit(claim, decision=decision) is None
    assert not claims.claim_again(db, claim), "not even by taking its lease again"
    commits.record_late(db, claim, decision)
    [late] = [e for e in client.history(WF, "A") if e.kind == "late"]
    assert late.detail["error"]["change"] == [{"op": "replace", "path": "/value", "value": "receipt 7"}]
    assert client.get(WF, "A").state["value"] is None


# ------------------------------------------------------------------------------------------------------ pause, resume
def test_a_paused_case_ends_its_running_step_and_begins_no_other(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    claim = hand.claim(ring)
    client.pause(WF, "A")
    assert claims.still_held(db, claim)
    assert hand.commit(claim, {"value": 1}).ring is None
    assert hand.claim(ring, 1) is None
    assert recovery.ring_again(db, ["keepstep"], LIMITS, ahead=3600) == []
    resumed = client.resume(WF, "A")
    assert (resumed.ring.seq, resumed.rung) == (1, True)
    assert hand.claim(ring, 1).state["value"] == 1


def test_a_paused_queue_costs_the_sweep_nothing_and_a_resumed_one_is_seen_by_it(
    client: Client, hand: Hand, db: Database
) -> None:
    hand.start("A", flows.approve)
    client.pause(WF, "A")
    assert client.get(WF, "A").due_at is None
    client.resume(WF, "A")
    due = sa.text("select due_at < clock_timestamp() + interval '11 seconds' as soon from keepstep.heads")
    assert db.one(due, {}).soon


def test_a_pause_keeps_timers_and_decisions(client: Client, hand: Hand, db: Database) -> None:
    bring(hand, client, "waiting")
    client.pause(WF, "A")
    assert client.signal(WF, "A", "approval", YES).ring is None
    assert client.get(WF, "A").status == "queued"
    bring(hand, client, "sleeping", "B")
    before = client.get(WF, "B").due_at
    client.pause(WF, "B")
    assert client.resume(WF, "B").ring is None, "it still sleeps"
    assert client.get(WF, "B").due_at == before


# -------------------------------------------------------------------------------------------------------------- retry
def test_a_failed_case_is_retried_under_the_same_key_and_attempts_go_on_counting(client: Client, hand: Hand) -> None:
    ring = bring(hand, client, "failed")
    before = client.get(WF, "A").run
    client.retry(WF, "A")
    case = client.get(WF, "A")
    assert (case.status, case.step, case.seq, case.run) == ("queued", "ask", 0, before)
    assert (case.error, case.finished_at) == (None, None)
    claim = hand.claim(ring)
    assert claim.attempt == 2
    assert hand.commit(claim, {"value": 1}) is not None


def test_a_failed_case_behind_many_deltas_is_revived_whole(client: Client, hand: Hand) -> None:
    from keepstep import fail

    ring = hand.start("A", state={"log": ["x" * 5000]})
    for seq in range(3):
        hand.step(ring, seq, {"value": seq})
    hand.step(ring, 3, fail("no"))
    client.retry("ten", "A")
    claim = hand.claim(ring, 3)
    assert (claim.state["value"], claim.step) == (2, "s4")
    assert claim.weight > 0, "the next snapshot comes when it is due"
    assert hand.commit(claim, {"value": 3}) is not None
    assert hand.claim(ring, 4).state["value"] == 3


def test_a_failed_case_needs_its_code_and_a_held_one_does_not(client: Client, hand: Hand) -> None:
    bring(hand, client, "failed")
    bring(hand, client, "held", "B")
    with Client(settings=client.settings, workflows=[]) as stranger:
        with pytest.raises(UnknownWorkflow, match="approve"):
            stranger.retry(WF, "A")
        assert stranger.retry(WF, "B").status == "queued"
    assert client.get(WF, "A").status == "failed"


@pytest.mark.parametrize("status", ["held", "failed"])
def test_a_new_key_is_asked_for_and_made(client: Client, hand: Hand, status: str) -> None:
    ring = bring(hand, client, status)
    case = client.get(WF, "A")
    with pytest.raises(errors.EffectsWouldRepeat, match="ask#0") as refused:
        client.retry(WF, "A", new_key=True)
    assert refused.value.effects == ["ask#0"]
    after = client.retry(WF, "A", new_key=True, repeat_effects=True)
    assert (after.status, after.step, after.seq, after.effects) == ("queued", "ask", 1, ["ask#0"])
    assert idempotency_key(case.run, 1, "ask") != idempotency_key(case.run, 0, "ask")
    assert client.get(WF, "A").state == case.state
    assert hand.claim(ring, 1).step == "ask"


def test_a_wait_that_failed_is_not_retried_but_asked_again_by_rewind(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.expiring)
    hand.step(ring, 0, ask(timeout=0, then="answered"))
    waits.expire(db, ring.case)
    assert client.get("expiring", "A").status == "failed"
    with pytest.raises(errors.NotRetryable, match="rewind --to 1"):
        client.retry("expiring", "A")
    after = client.rewind("expiring", "A", to=1)
    assert (after.status, after.step, after.seq) == ("waiting", "ask_soon", 2)
    assert fates(db) == ["expired", None]
    assert recovery.overdue_waits(db, LIMITS) == [ring.case], "with the time that there was at first: none"
    assert client.signal("expiring", "A", "approval", YES).fate == "delivered"
    assert client.get("expiring", "A").step == "answered"


# --------------------------------------------------------------------------------------------------------------- skip
@pytest.mark.parametrize("status", ["queued", "running", "held", "failed"])
def test_a_skipped_step_is_as_if_it_had_returned_the_update(client: Client, hand: Hand, status: str) -> None:
    ring = bring(hand, client, status)
    after = client.skip(WF, "A", update={"value": "by hand"}, actor="ann")
    assert (after.status, after.step, after.seq) == ("queued", "act", 1)
    [skipped] = [e for e in client.history(WF, "A") if e.kind == "skip"]
    assert (skipped.seq, skipped.step) == (1, "ask")
    assert hand.claim(ring, 1).state["value"] == "by hand"


def test_a_skipped_wait_goes_where_the_answer_would_have_led(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.expiring)
    hand.step(ring, 0, ask(then="answered"))
    assert client.skip("expiring", "A", update={"approval": {"approved": True}}).step == "answered"
    assert fates(db) == ["dropped"]
    assert client.signal("expiring", "A", "approval", YES).fate == "kept", "it meets no wait that is over"
    assert client.get("expiring", "A").state["approval"]["approved"] is True


@pytest.mark.parametrize("last", ["queued", "failed"])
def test_skipping_the_last_step_completes_the_case(client: Client, hand: Hand, db: Database, last: str) -> None:
    from keepstep import fail

    ring = hand.start("A", flows.coroutine)
    if last == "failed":
        hand.step(ring, 0, fail("no"))
    after = client.skip("coroutine", "A", update={"value": 7})
    assert (after.status, after.step) == ("completed", None)
    case = client.get("coroutine", "A")
    assert (case.seq, case.state["value"], case.error) == (1, 7, None)
    assert db.all(sa.text("select 1 from keepstep.heads")) == []


def test_skip_goes_to_a_step_that_exists_with_a_state_that_fits(client: Client, hand: Hand) -> None:
    bring(hand, client, "held")
    with pytest.raises(errors.UnknownStep, match="nowhere"):
        client.skip(WF, "A", to="nowhere")
    for update in ({"seconds": "many"}, {"nothing": 1}):
        with pytest.raises(BadState, match="State"):
            client.skip(WF, "A", update=update)
    assert (client.get(WF, "A").status, client.get(WF, "A").seq) == ("held", 0)
    assert client.skip(WF, "A", to="decline").step == "decline"


def test_a_state_of_newer_code_is_not_merged_by_older_code(client: Client, hand: Hand, db: Database) -> None:
    bring(hand, client, "held")
    db.run(sa.text("update keepstep.heads set schema_version = 2"), {})
    with pytest.raises(errors.NewerState, match="version 2"):
        client.skip(WF, "A")


# ------------------------------------------------------------------------------------------------------------- rewind
def walked(hand: Hand, steps: int = 3, thread_id: str = "A") -> Any:
    ring = hand.start(thread_id)
    for seq in range(steps):
        hand.step(ring, seq, {"value": seq, "log": [f"s{n}" for n in range(1, seq + 2)]})
    return ring


def test_rewind_writes_a_new_checkpoint_with_the_old_state_and_the_past_stays(client: Client, hand: Hand) -> None:
    ring = walked(hand)
    with pytest.raises(errors.EffectsWouldRepeat) as refused:
        client.rewind("ten", "A", to=1)
    assert refused.value.effects == ["s2#1", "s3#2"]
    assert client.get("ten", "A").seq == 3
    after = client.rewind("ten", "A", to=1, repeat_effects=True, reason="the wrong document")
    assert (after.status, after.step, after.seq, after.effects) == ("queued", "s2", 4, ["s2#1", "s3#2"])
    claim = hand.claim(ring, 4)
    assert claim.state["log"] == ["s1"]
    assert hand.commit(claim, {"value": 9}) is not None
    assert [e.seq for e in client.history("ten", "A") if e.kind in ("start", "step", "rewind")] == [0, 1, 2, 3, 4, 5]
    assert client.get("ten", "A").state["value"] == 9


def test_an_attempt_that_wrote_nothing_may_have_had_its_effect(client: Client, hand: Hand) -> None:
    ring = walked(hand, 1)
    hand.claim(ring, 1)
    with pytest.raises(errors.EffectsWouldRepeat) as refused:
        client.rewind("ten", "A", to=1)
    assert refused.value.effects == ["s2#1"]


def test_where_no_code_ran_nobody_is_asked(client: Client, hand: Hand) -> None:
    walked(hand, 1)
    client.skip("ten", "A")
    assert client.rewind("ten", "A", to=1).step == "s2"


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_an_ended_case_is_revived_by_rewind(client: Client, hand: Hand, db: Database, status: str) -> None:
    ring = bring(hand, client, status)
    after = client.rewind(WF, "A", to=0, repeat_effects=True)
    case = client.get(WF, "A")
    assert (after.status, case.step, case.finished_at, case.error) == ("queued", "ask", None, None)
    assert db.one(sa.text("select expires_at from keepstep.cases"), {}).expires_at is None
    assert hand.step(ring, after.seq, finish()) is not None
    assert client.get(WF, "A").status == "completed"


def test_rewind_into_a_wait_asks_again(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask(prompt="may we?", timeout=3600))
    client.signal(WF, "A", "approval", {"approved": False})
    hand.step(ring, 2, goto("decline"))
    after = client.rewind(WF, "A", to=1, repeat_effects=True)
    assert (after.status, after.seq, after.step) == ("waiting", 4, "ask")
    [wait] = client.waits(WF, "A")
    assert (wait["name"], wait["prompt"]) == ("approval", "may we?")
    assert client.get(WF, "A").state["approval"] is None
    assert client.get(WF, "A").due_at == wait["deadline"]
    assert client.signal(WF, "A", "approval", YES).fate == "delivered"
    assert client.get(WF, "A").step == "act"
    again = client.rewind(WF, "A", to=4)
    assert (again.status, again.step) == ("waiting", "ask"), "also to a wait that a rewind opened"


def test_rewind_into_the_middle_of_several_waits_asks_again_for_those_that_were_open(
    client: Client, hand: Hand, db: Database
) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, wait_all(wait_for("a", into="value"), wait_for("b", into="seconds")))
    client.signal(WF, "A", "a", 1)
    client.signal(WF, "A", "b", 2)
    assert (client.get(WF, "A").status, client.get(WF, "A").seq) == ("queued", 3)
    after = client.rewind(WF, "A", to=2)
    assert (after.status, after.step) == ("waiting", "ask")
    assert [wait["name"] for wait in client.waits(WF, "A")] == ["b"]
    assert client.get(WF, "A").state["value"] == 1
    client.signal(WF, "A", "b", 3)
    assert (client.get(WF, "A").step, client.get(WF, "A").state["seconds"]) == ("act", 3)
    client.rewind(WF, "A", to=1)
    assert [wait["name"] for wait in client.waits(WF, "A")] == ["a", "b"]


def test_what_was_sent_for_the_past_and_not_used_is_refused_and_shown(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, {"value": 1})
    assert client.signal(WF, "A", "approval", YES).fate == "kept"
    client.rewind(WF, "A", to=0, repeat_effects=True)
    [sent] = [e for e in client.history(WF, "A") if e.kind == "sent"]
    assert sent.detail["refused"] == "the case was rewound"
    hand.step(ring, 2, ask())
    assert waits.deliver(db, ring.case) is None
    assert client.signal(WF, "A", "approval", {"approved": False}).fate == "delivered"


@pytest.mark.parametrize("seq", [7, -1])
def test_a_checkpoint_that_is_not_there_is_no_place_to_go(client: Client, hand: Hand, seq: int) -> None:
    bring(hand, client, "queued")
    with pytest.raises(errors.NotRewindable, match="its last one is 0"):
        client.rewind(WF, "A", to=seq)
    with pytest.raises(errors.NotForkable, match="its last one is 0"):
        client.fork(WF, "A", at=seq, new_thread_id="B")


def test_nothing_comes_after_the_end(client: Client, hand: Hand) -> None:
    bring(hand, client, "completed")
    with pytest.raises(errors.NotRewindable, match="nothing comes after"):
        client.rewind(WF, "A", to=1)


@pytest.mark.parametrize("verb", ["skip", "rewind", "restart"])
def test_who_has_not_seen_the_latest_checkpoint_is_told(client: Client, hand: Hand, verb: str) -> None:
    """Whoever wants to skip the step that hangs must not skip the next one, because it ended a moment ago."""
    walked(hand, 2)
    act = {
        "skip": lambda seen: client.skip("ten", "A", seen=seen),
        "rewind": lambda seen: client.rewind("ten", "A", to=1, repeat_effects=True, seen=seen),
        "restart": lambda seen: client.restart("ten", "A", repeat_effects=True, seen=seen),
    }[verb]
    with pytest.raises(errors.MovedOn, match="from checkpoint 1 to 2"):
        act(1)
    assert client.get("ten", "A").seq == 2
    assert act(2).seq == 3


# ------------------------------------------------------------------------------------------------------ restart, fork
@pytest.mark.parametrize("status", [str(s) for s in Status])
def test_restart_begins_again_with_what_was_sent_as_another_run(client: Client, hand: Hand, status: str) -> None:
    ring = bring(hand, client, status)
    before = client.get(WF, "A")
    after = client.restart(WF, "A", repeat_effects=True)
    case = client.get(WF, "A")
    assert (after.status, after.step, after.seq) == ("queued", "ask", before.seq + 1)
    assert case.run != before.run
    assert case.state == {"seconds": 0.0, "log": [], "value": None, "approval": None}
    assert client.waits(WF, "A") == []
    assert hand.claim(ring, after.seq).attempt == 1


def test_restart_lists_all_that_ran(client: Client, hand: Hand) -> None:
    walked(hand, 2)
    with pytest.raises(errors.EffectsWouldRepeat) as refused:
        client.restart("ten", "A")
    assert refused.value.effects == ["s1#0", "s2#1"]


def test_a_fork_is_a_case_of_its_own_and_the_first_stays_as_it_is(client: Client, hand: Hand, db: Database) -> None:
    ring = walked(hand)
    before = client.get("ten", "A")
    with pytest.raises(errors.EffectsWouldRepeat):
        client.fork("ten", "A", at=2, new_thread_id="B")
    forked = client.fork("ten", "A", at=2, new_thread_id="B", repeat_effects=True, actor="ann", reason="what if")
    assert (forked.thread_id, forked.status, forked.step, forked.seq) == ("B", "queued", "s3", 0)
    case = client.get("ten", "B")
    assert case.state["log"] == ["s1", "s2"]
    assert case.run != before.run
    assert client.get("ten", "A") == before
    assert hand.claim(forked.ring).step == "s3"
    assert hand.claim(ring, 3).step == "s4"
    for thread_id in ("A", "B"):
        [audit] = [e for e in client.history("ten", thread_id) if e.kind == "audit"]
        assert (audit.step, audit.detail["actor"], audit.detail["at"]) == ("fork", "ann", 2)
    with pytest.raises(CaseConflict, match="ten/B"):
        client.fork("ten", "A", at=2, new_thread_id="B", repeat_effects=True)


def test_a_fork_of_a_wait_waits_too_and_each_is_answered_alone(client: Client, hand: Hand) -> None:
    bring(hand, client, "waiting")
    forked = client.fork(WF, "A", at=1, new_thread_id="B")
    assert (forked.status, forked.ring) == ("waiting", None)
    assert client.signal(WF, "B", "approval", YES).fate == "delivered"
    assert client.get(WF, "A").status == "waiting"
    assert client.get(WF, "B").step == "act"
    assert client.get(WF, "B").state["value"] == "asked"


# ---------------------------------------------------------------------------------------------------------- by filter
def test_by_filter_a_dry_run_only_tells_and_the_real_one_does_it(client: Client, hand: Hand) -> None:
    for number in range(3):
        bring(hand, client, "held", f"A{number}")
    bring(hand, client, "waiting", "W")
    bring(hand, client, "completed", "C")
    found = client.retry_many(workflow=WF, dry_run=True)
    assert sorted(one.thread_id for one in found) == ["A0", "A1", "A2"]
    assert {client.get(WF, f"A{number}").status for number in range(3)} == {"held"}
    assert len(client.retry_many(workflow=WF, status="held", reason="the API is back")) == 3
    assert {client.get(WF, f"A{number}").status for number in range(3)} == {"queued"}
    assert len(client.pause_many(workflow=WF, status="queued")) == 3
    assert client.pause_many(workflow=WF, status="queued") == []
    assert len(client.resume_many(workflow=WF)) == 3
    cancelled = client.cancel_many(workflow=WF, actor="ann")
    assert sorted(one.thread_id for one in cancelled) == ["A0", "A1", "A2", "W"]
    assert client.get(WF, "C").status == "completed"
    assert audits(client, "A1")[-1] == ("cancel", "ann", None)


def test_a_filter_that_finds_everything_or_never_anything_is_refused(client: Client) -> None:
    with pytest.raises(errors.BadFilter, match="at least one filter"):
        client.cancel_many()
    with pytest.raises(errors.BadFilter, match="never moves a case that is waiting"):
        client.retry_many(status="waiting")
    with pytest.raises(TypeError):
        client.cancel_many(colour="red")  # type: ignore[call-arg]


def test_one_that_moved_meanwhile_is_told_and_the_others_go_on(
    client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        bring(hand, client, "held", f"A{number}")
    retry = client.retry

    def slow(workflow: str, thread_id: str, **options: Any) -> Any:
        if thread_id == "A1":
            client.cancel(workflow, thread_id)
        return retry(workflow, thread_id, **options)

    monkeypatch.setattr(client, "retry", slow)
    result = {one.thread_id: one.refused for one in client.retry_many(status="held")}
    assert result["A0"] is None
    assert "it is cancelled" in result["A1"]


def test_pages_of_the_filter_leave_nobody_out(client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstep.workers.client.steering_many.PAGE", 2)
    for number in range(5):
        hand.start(f"A{number}")
    assert len(client.cancel_many(workflow="ten")) == 5
    assert client.counts() == {"cancelled": 5}


def test_a_key_is_never_used_by_two_visits(client: Client, hand: Hand) -> None:
    """Whatever an operator does: each (run, seq, step) that a worker may be given is given for one visit only."""
    ring = hand.start("A", flows.approve)
    seen: set[Any] = set()

    def visit(seq: int) -> None:
        claim = hand.claim(ring, seq, uuid4())
        key = idempotency_key(claim.run, seq, claim.step)
        assert key not in seen
        seen.add(key)

    visit(0)
    for number, act in enumerate(
        (
            lambda: client.rewind(WF, "A", to=0, repeat_effects=True),
            lambda: client.restart(WF, "A", repeat_effects=True),
            lambda: client.skip(WF, "A", to="ask"),
            lambda: (client.cancel(WF, "A"), client.rewind(WF, "A", to=0, repeat_effects=True)),
        ),
        1,
    ):
        act()
        visit(number)
