"""What operators see of queues and surroundings: `keepstep queues`, `keepstep doctor`, metrics."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from keepstep import Client
from keepstep.checkpoint import census, recovery, timeline
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.queues import lag, queues
from keepstep.checkpoint.refusals import why_refused
from keepstep.checkpoint.ring import Delivery, Ring
from keepstep.checkpoint.sql import queues as sql
from keepstep.config.settings import read_settings
from keepstep.monitor.doctor import Level, Patient, examine
from keepstep.monitor.metrics import Exporter
from keepstep.steps.decide import hold
from keepstep.steps.keys import case_id
from tests import flows
from tests.conftest import StartWorker
from tests.support.crowd import crowd
from tests.support.eventually import eventually
from tests.support.hand import KNOWN, LIMITS, Hand
from tests.support.stages import bring

NODE = sa.text("""
insert into keepstep.nodes (id, host, host_id, process, lock_key, queues, workflows, step_queues, pool, concurrency,
                            version, lock_works)
values (:id, 'box', 'h', '17:1', 1, cast(:queues as json), '{"ten": 1}', '{"ten": {"s1": "keepstep"}}', 'prefork',
        :concurrency, '0', true)
""")


def node(db: Database, *names: str, id: Any = None, concurrency: int = 2) -> None:
    db.run(NODE, {"id": id or uuid4(), "queues": json.dumps(names), "concurrency": concurrency})


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


# ------------------------------------------------------------------------------------------------------------- queues
def test_a_queue_tells_what_waits_runs_and_who_reads_it(client: Client, db: Database, hand: Hand) -> None:
    client.start("ten", "A", {}, queue="slow")
    client.start("ten", "B", {}, queue="slow")
    client.pause("ten", "B")
    db.run(sa.text("update keepstep.heads set entered_at = now() - interval '90 s'"), {})
    node(db, "keepstep", id=hand.claimant.owner, concurrency=3)
    ring = hand.start("C")
    hand.step(ring, 0)
    hand.claim(ring, 1)
    found = {one.name: one for one in queues(db)}
    slow, usual = found["slow"], found["keepstep"]
    assert (slow.queued, slow.workers, slow.slots) == (1, 0, 0), "what is paused waits for nobody"
    assert 90 <= (slow.oldest or 0) < 120
    assert (usual.queued, usual.running, usual.workers, usual.slots, usual.steps) == (0, 1, 1, 3, 1)
    assert usual.median is not None
    assert usual.slow is not None
    assert lag(db) == (0, 0)


def test_a_claim_that_is_refused_has_a_reason(client: Client, db: Database, hand: Hand) -> None:
    at = {s: bring(hand, client, s, s).case for s in ("queued", "running", "waiting", "completed")}

    def why(status: str, seq: int, known: str = KNOWN) -> str:
        return why_refused(db, Delivery(case=at[status], seq=seq), known)

    assert why("completed", 0) == "ended"
    assert why("waiting", 0) == "stale"
    assert why("waiting", 1) == "elsewhere"
    assert why("running", 0) == "running"
    assert why("queued", 0, "{}") == "too_new"
    client.pause("approve", "queued")
    assert why("queued", 0) == "paused"


# ------------------------------------------------------------------------------------------------------------- counts
def test_a_census_stops_at_its_limit(client: Client, db: Database, hand: Hand) -> None:
    bring(hand, client, "completed", "done")
    bring(hand, client, "held", "held")
    client.pause("approve", "held")
    counted = census.census(db)
    assert (counted.cases["completed"], counted.cases["held"], counted.cases["failed"], counted.paused) == (1, 1, 0, 1)
    assert not counted.capped
    crowd(db, 50, "ten")
    some = census.census(db, most=20, live=20)
    assert some.total <= 21
    assert "waiting" in some.capped
    assert "completed" not in some.capped
    assert census.census(db, "approve").total == 2
    assert census.workflows(db) == ["approve", "ten"]


def test_a_page_of_a_long_case_reads_a_stretch_of_it(db: Database, hand: Hand) -> None:
    case = hand.start("A").case
    many = """insert into keepstep.checkpoints
        (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot, payload)
        select :id, n, 'step', 's2', 'queued', 's2', 1, 1, false, '[]' from generate_series(1, 5000) n"""
    db.run(sa.text(many), {"id": case})
    tries = """insert into keepstep.attempts (case_id, seq, step, attempt, outcome)
        select :id, n, 's2', 1, 'raised' from generate_series(1, 5000) n"""
    db.run(sa.text(tries), {"id": case})
    found = timeline.stretch(db, case, before=2000)
    assert [entry.seq for entry in found.entries] == list(range(1900, 2000))
    assert {one.seq for one in found.tried} == set(range(1900, 2000))
    assert found.earlier == 1900
    assert timeline.stretch(db, case, before=50).earlier is None
    assert len(timeline.path(db, case)) == timeline.PATH


def test_an_attempt_that_came_to_nothing_says_when_it_began(db: Database, hand: Hand) -> None:
    raised, taken = hand.start("A"), hand.start("B")
    hand.commit(hand.claim(raised), decision=hold("why", {"type": "OSError"}))
    hand.claim(taken)
    recovery.release_node(db, hand.claimant.owner, LIMITS)
    for ring, outcome in ((raised, "held"), (taken, "released")):
        [tried] = timeline.stretch(db, ring.case).tried
        assert tried.outcome == outcome
        assert tried.started_at is not None
        assert timedelta(0) <= tried.at - tried.started_at < timedelta(seconds=30)


# ------------------------------------------------------------------------------------------------------------- doctor
def examined(client: Client) -> dict[str, Any]:
    patient = Patient(client=client, settings=client.settings)
    return {finding.what: finding for finding in examine(patient)}


def level_of(found: dict[str, Any], words: str) -> Level:
    [finding] = [finding for what, finding in found.items() if words in what]
    assert finding.level is Level.OK or finding.do, "each finding says what to do"
    return Level(finding.level)


def test_the_doctor_finds_nothing_wrong_where_nothing_is(client: Client, db: Database) -> None:
    for workflow in client.registry:
        node(db, *{step.queue for step in workflow.steps.values()})
    found = examined(client)
    assert {finding.level for finding in found.values()} <= {Level.OK, Level.WARN}
    for words in ("PostgreSQL", "tables are there", "clock agrees", "never evicts", "every queue has", "keeps up"):
        matching = [finding for what, finding in found.items() if words in what]
        assert matching, words


def test_the_doctor_finds_what_is_wrong(client: Client, db: Database, hand: Hand) -> None:
    client.start("ten", "A", {}, queue="nobody")
    bring(hand, client, "held", "H")
    bring(hand, client, "running", "R")
    client.pause("ten", "A")
    client.start("ten", "B", {}, queue="nobody")
    overdue = "update keepstep.heads set deadline = now() - interval '5 min' where status = 'running'"
    db.run(sa.text(overdue), {})
    db.run(sa.text("update keepstep.heads set due_at = now() - interval '5 min' where status = 'queued'"), {})
    node(db, "keepstep")
    db.run(sa.text("update keepstep.nodes set lock_works = false, version = '9.9.9'"), {})
    found = examined(client)
    assert level_of(found, "on the queue nobody, which no live worker reads") is Level.BAD
    assert level_of(found, "1 case is held") is Level.WARN
    assert level_of(found, "case is paused") is Level.WARN
    assert level_of(found, "past their step's deadline") is Level.BAD
    assert level_of(found, "the sweep is") is Level.BAD
    assert level_of(found, "can't hold their lock") is Level.WARN
    assert level_of(found, "several releases") is Level.WARN
    db.run(sa.text("update keepstep.nodes set seen_at = now() - interval '1 hour'"), {})
    assert level_of(examined(client), "no worker is alive") is Level.BAD
    assert level_of(examined(client), "is silent for") is Level.WARN


def test_the_doctor_finds_what_it_cannot_reach(database_url: str, broker_url: str, db: Database) -> None:
    with Client(database_url, "redis://127.0.0.1:1/0", workflows=()) as client:
        assert level_of(examined(client), "the broker can't be reached") is Level.BAD
    with Client("postgresql://me:secret@127.0.0.1:1/x", broker_url, workflows=()) as client:
        found = examined(client)
        assert level_of(found, "PostgreSQL at") is Level.BAD
        assert "secret" not in str(found)
        assert level_of(found, "never evicts") is Level.OK, "the rest is looked at all the same"
    db.run(sa.text("drop schema keepstep cascade"), {})
    with Client(database_url, broker_url, workflows=()) as client:
        assert level_of(examined(client), "keepstep db upgrade") is Level.BAD


# ------------------------------------------------------------------------------------------------------------- metrics
def told(exporter: Exporter) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry()
    registry.register(exporter)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.slow
def test_metrics_tell_what_has_happened_and_what_is(
    database_url: str, broker_url: str, client: Client, start_worker: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(database_url, broker_url, workflows=()) as other:
        monkeypatch.setattr("keepstep.monitor.metrics.SETTLED", 0.2)
        exporter = Exporter(other)
        exporter.look()
        start_worker()
        client.start("ten", "A", {})
        client.start("wrong", "W", {"value": "raise"})
        client.start("approve", "Q", {})
        client.wait("ten", "A")
        eventually(lambda: client.get("wrong", "W").status == "held", 20)
        # messages for steps that are over: refused, with a reason
        client.start("once", "O", {})
        client.wait("once", "O")
        client._bell.ring([_stale()])

        def counted() -> Any:
            exporter.look()
            seen = told(exporter)
            enough = seen.get(("keepstep_steps_total", "s10", "ten")) == 1
            refused = seen.get(("keepstep_claims_refused_total", "ended"), 0)
            return seen if enough and refused and ("keepstep_vain_attempts_total", "held", "wrong") in seen else None

        seen = eventually(counted, 20, every=0.3)
    assert seen[("keepstep_up",)] == 1
    assert seen[("keepstep_vain_attempts_total", "raised", "wrong")] == 2
    assert seen[("keepstep_completed_cases_total", "ten")] == 1
    assert seen[("keepstep_step_seconds_count", "s5", "ten")] == 1
    assert seen[("keepstep_queue_wait_seconds_count", "keepstep")] >= 10
    assert seen[("keepstep_checkpoint_bytes_count", "ten")] == 10
    assert seen[("keepstep_queue_workers", "keepstep")] == 1
    assert seen[("keepstep_queue_slots", "keepstep")] == 2
    assert seen[("keepstep_queue_messages", "keepstep")] == 0
    assert seen[("keepstep_oldest_question_seconds",)] > 0
    assert seen[("keepstep_sweep_lag_seconds",)] < 30


def _stale() -> Ring:
    target = flows.once.first.target
    return Ring.to(target, case=case_id("once", "O"), seq=0, workflow="once", thread_id="O", priority=None)


def test_what_happened_lately_is_read_without_the_past(db: Database, hand: Hand) -> None:
    case = hand.start("A").case
    past = """insert into keepstep.checkpoints
        (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot, payload, started_at, at)
        select :id, n, 'step', 's2', 'queued', 's2', 1, 1, false, '[]', at, at
          from (select n, now() - interval '1 day' + n * interval '1 s' as at from generate_series(1, 60000) n) past"""
    db.run(sa.text(past), {"id": case})
    db.run(sa.text("select brin_summarize_new_values('keepstep.checkpoints_at')"), {})
    db.run(sa.text("analyze"), {})
    between = {"since": datetime.now(UTC) - timedelta(minutes=1), "until": datetime.now(UTC)}
    buckets = {"took": [1.0], "bytes": [1.0], "waited": [1.0]}
    for statement in (sql.STEPS, sql.WAITED):
        rows = db.all(sa.text(f"explain (analyze, format json) {statement}"), between | buckets)
        plan = json.dumps(rows[0][0][0])
        assert "checkpoints_at" in plan
        assert '"Node Type": "Seq Scan", "Parent Relationship": "Outer", "Parallel Aware": false' not in plan


def test_metrics_count_each_step_once_however_often_they_look(
    database_url: str, broker_url: str, db: Database, hand: Hand
) -> None:
    with Client(database_url, broker_url, workflows=()) as client:
        exporter = Exporter(client)
        exporter.look()
        ring = hand.start("A")
        for seq in range(3):
            hand.step(ring, seq)
        older = "update keepstep.checkpoints set at = at - interval '3 s', started_at = started_at - interval '3 s'"
        exporter._until = exporter._until and exporter._until - timedelta(minutes=3)
        db.run(sa.text(older), {})
        for _ in range(3):
            exporter.look()
        assert sum(exporter.steps.by.values()) == 3
        assert sum(sum(counts) for counts in exporter.took.by.values()) == 3
        assert exporter.waited.by


def test_metrics_survive_a_database_that_is_away() -> None:
    settings = read_settings(database_url="postgresql://me:secret@127.0.0.1:1/x", broker_url="redis://127.0.0.1:1/0")
    with Client(settings=settings, workflows=()) as client:
        exporter = Exporter(client)
        exporter.look()
        assert told(exporter)[("keepstep_up",)] == 0
