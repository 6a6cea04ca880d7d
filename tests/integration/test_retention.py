"""Ended cases leave on time, in small batches, with all that is theirs, and without waiting for anybody."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import Client, Workflow
from keepstep.checkpoint import commits, retention
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import retention as sql
from keepstep.checkpoint.sql import steering
from keepstep.checkpoint.tables import metadata
from keepstep.steps.decide import Decision
from keepstep.steps.errors import BadFilter
from keepstep.steps.moves import Status
from tests import flows
from tests.support.hand import Hand
from tests.support.stages import WF, bring


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def expire(db: Database, ago: str = "1 second") -> None:
    db.run(
        sa.text(
            f"update keepstep.cases set expires_at = clock_timestamp() - interval '{ago}' where status is not null"
        ),
        {},
    )


def rows(db: Database) -> dict[str, int]:
    """How many rows each table has, of those that have any."""
    counted = {t.name: db.all(sa.text(f"select count(*) as n from {t}"))[0].n for t in metadata.tables.values()}
    return {name: n for name, n in counted.items() if n}


def test_retention_counts_from_the_end_by_the_status_that_it_ended_with(db: Database, client: Client) -> None:
    kept = {"completed": timedelta(days=30), "failed": timedelta(days=365)}
    flow = Workflow("kept", state=flows.State, retention=kept)
    flow.step(name="only")(lambda state, call: None)
    for thread_id in ("C", "F", "X"):
        client.start(flow, thread_id, {})
    claims = {t: Hand(db, known='{"kept": 1}').claim(client.get(flow, t).id) for t in ("C", "F")}
    completed, failed = claims["C"], claims["F"]
    assert completed is not None
    assert failed is not None
    done = Decision(move="complete", status=Status.COMPLETED, state=completed.state)
    stored = commits.weigh(completed, done, max_state_bytes=10**6)
    assert commits.commit(db, completed, done, stored, version=1, took=0.1)
    lost = Decision(move="fail", status=Status.FAILED, error={"message": "no"})
    assert commits.commit(db, failed, lost, None, version=1, took=0.1)
    client.cancel("kept", "X")
    days = sa.text(
        "select thread_id, extract(epoch from expires_at - finished_at) / 86400 as days from keepstep.cases order by 1"
    )
    assert [(r.thread_id, r.days and round(r.days)) for r in db.all(days)] == [("C", 30), ("F", 365), ("X", None)]


def test_all_that_is_a_cases_goes_with_it_and_nothing_of_the_others(client: Client, hand: Hand, db: Database) -> None:
    bring(hand, client, "waiting")
    client.signal(WF, "A", "approval", {"approved": True, "actor": "eve"})
    client.cancel(WF, "A", actor="ops")
    db.run(sa.text("delete from keepstep.hooks"), {})
    before = rows(db)
    assert {"cases", "checkpoints", "signals", "waits", "audit"} <= set(before)
    hand.start("B")
    kept = rows(db)
    expire(db)
    assert [(p.workflow, p.status, p.cases) for p in retention.prunable(db)] == [(WF, "cancelled", 1)]
    assert [p.cases for p in retention.prune(db, 100)] == [1]
    assert {name: kept[name] - before.get(name, 0) for name in kept if kept[name] != before.get(name, 0)} == rows(db)


def test_children_go_with_their_parent_and_not_before(client: Client, hand: Hand, db: Database) -> None:
    ids = {name: hand.start(name, flows.once).case for name in ("parent", "child", "grandchild")}
    for name in ids:
        client.cancel("once", name)
    db.run(sa.text("delete from keepstep.hooks"), {})
    parents = sa.text("update keepstep.cases set parent = :parent where id = :id")
    db.run(parents, {"id": ids["child"], "parent": ids["parent"]})
    db.run(parents, {"id": ids["grandchild"], "parent": ids["child"]})
    expire(db)
    with db.transaction() as operator:  # who revives a grandchild has it locked
        operator.execute(steering.LOCK_ENDED, {"id": ids["grandchild"]})
        assert retention.prune(db, 10) == []
    assert retention.prune(db, 10) == [], "a family that could not go makes room for others first"
    db.run(sa.text("update keepstep.cases set expires_at = clock_timestamp() where id <> :id"), {"id": ids["parent"]})
    assert retention.prune(db, 10) == [], "a child doesn't go by itself"
    expire(db)
    assert sum(p.cases for p in retention.prune(db, 10)) == 3
    assert rows(db) == {}


def test_a_case_whose_hook_is_still_to_be_called_stays_a_week_at_the_most(
    client: Client, hand: Hand, db: Database
) -> None:
    case = hand.start("A", flows.once).case
    client.cancel("once", "A")
    db.run(sa.text("insert into keepstep.hooks (case_id, event, seq) values (:id, 'cancelled', 0)"), {"id": case})
    expire(db)
    assert retention.prune(db, 10) == []
    db.run(sa.text("update keepstep.cases set finished_at = clock_timestamp() - interval '8 days'"), {})
    assert sum(p.cases for p in retention.prune(db, 10)) == 1


def test_what_is_locked_is_passed_over_and_batches_end_in_time(client: Client, hand: Hand, db: Database) -> None:
    for number in range(45):
        hand.start(f"A{number}", flows.once)
        client.cancel("once", f"A{number}")
    db.run(sa.text("delete from keepstep.hooks"), {})
    expire(db)
    with db.transaction() as operator:
        operator.execute(steering.LOCK_ENDED, {"id": client.get("once", "A3").id})
        assert sum(p.cases for p in retention.prune(db, 30)) == 30
        assert sum(p.cases for p in retention.prune(db, 100, seconds=0.0)) == 0, "no time, no batch"
        assert sum(p.cases for p in retention.prune(db, 100)) == 14
    assert sum(p.cases for p in retention.prune(db, 100)) == 1


def test_old_cases_go_by_an_operators_word_also_without_a_retention(client: Client, hand: Hand, db: Database) -> None:
    for thread_id, days in (("A", 100), ("B", 10)):
        case = hand.start(thread_id, flows.once).case
        client.cancel("once", thread_id)
        aged = sa.text(
            "update keepstep.cases set finished_at = clock_timestamp() - make_interval(days => :d) where id=:id"
        )
        db.run(aged, {"id": case, "d": days})
    hand.start("live", flows.once)
    assert client.prune() == []
    which = {"workflow": "once", "older_than": timedelta(days=90)}
    assert [p.cases for p in client.prune(**which, dry_run=True)] == [1]
    assert client.prune(**which, status="completed") == []
    assert [p.cases for p in client.prune(**which)] == [1]
    assert [case.thread_id for case in client.list()] == ["live", "B"]
    for wrong in ({"workflow": "once"}, {"older_than": 5}, {**which, "status": "held"}):
        with pytest.raises(BadFilter):
            client.prune(**wrong)


def test_a_late_result_of_a_pruned_case_is_dropped_and_the_thread_id_begins_with_new_keys(
    client: Client, hand: Hand, db: Database
) -> None:
    ring = hand.start("A", flows.once)
    run = client.get("once", "A").run
    claim = hand.claim(ring)
    assert claim is not None
    client.cancel("once", "A")
    db.run(sa.text("delete from keepstep.hooks"), {})
    expire(db)
    assert retention.prune(db, 10)
    assert hand.commit(claim) is None
    commits.record_late(db, claim, hand.decide(claim))
    assert rows(db) == {}
    assert client.start(flows.once, "A", {}).new
    assert client.get("once", "A").run != run


def test_what_comes_late_while_the_case_is_being_deleted_leaves_no_trace(
    client: Client, hand: Hand, db: Database
) -> None:
    """The late row and the deletion meet at the case's own row: one of the two waits."""
    claim = hand.claim(hand.start("A", flows.once))
    assert claim is not None
    client.cancel("once", "A")
    db.run(sa.text("delete from keepstep.hooks"), {})
    expire(db)
    with db.transaction() as pruning:
        [row] = pruning.execute(sql.LOCK_EXPIRED, {"limit": 1}).all()
        with db.transaction() as late:
            late.execute(sa.text("set local lock_timeout = '100ms'"))
            with pytest.raises(sa.exc.OperationalError):
                late.execute(sa.text("select 1 from keepstep.cases where id = :id for key share"), {"id": row.id})
            late.rollback()
        pruning.execute(sql.REMOVE, {"ids": [row.id]})
    commits.record_late(db, claim, hand.decide(claim))
    assert rows(db) == {}


def test_the_index_finds_what_is_due(db: Database) -> None:
    many = sa.text("""insert into keepstep.cases (id, run, workflow, thread_id, input, status, finished_at, expires_at)
      select gen_random_uuid(), gen_random_uuid(), 'w', n::text, '{}', 'completed', now(), now() + interval '1 day'
        from generate_series(1, 5000) n""")
    db.run(many, {})
    db.run(sa.text("analyze keepstep.cases"), {})
    plan = "\n".join(str(row[0]) for row in db.all(sa.text(f"explain {sql.LOCK_EXPIRED.text}"), {"limit": 20}))
    assert "cases_expire" in plan
    assert "Seq Scan on cases" not in plan
    plan = "\n".join(str(row[0]) for row in db.all(sa.text(f"explain {sql.CHILDREN.text}"), {"ids": [uuid4()]}))
    assert "cases_parent" in plan, plan
