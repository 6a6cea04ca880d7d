"""Each hot statement is pinned to its index, with thousands of waiting cases in the table."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep.checkpoint.database import Database
from keepstep.checkpoint.sql import births, branches, hooks, hot, nodes, reads, signals, steering, sweep
from tests import flows
from tests.support.crowd import crowd
from tests.support.hand import KNOWN, Hand
from tests.support.stages import ask

ONE = uuid4()
CHECKPOINT = {
    "status": "queued", "target": "s2", "queue": "q", "timeout": 1.0, "in_doubt": "retry", "heartbeat_timeout": None,
    "schema_version": 1, "kind": "step", "key_read": True, "cost": None, "is_snapshot": False, "weight": 1,
    "delay": None, "until": None, "ran": "s1", "attempt": 1, "owner": ONE,
    "payload": "[]", "took": 0.1,
}  # fmt: skip
FENCE = {"id": ONE, "lease": ONE}
RECOVER = {
    "charge": "", "outcome": "crashed", "message": "m", "certain": True, "begun": True, "settling": 5.0,
    "limit": 10, "max_crashes": 3, "max_node_deaths": 3,
}  # fmt: skip
PINNED = {
    "claim": (hot.CLAIM, {**FENCE, "seq": 1, "owner": ONE, "executor": "1:1", "known": KNOWN}),
    "commit": (hot.COMMIT, {**FENCE, **CHECKPOINT}),
    "complete": (hot.COMPLETE, {**FENCE, **CHECKPOINT}),
    "claim_again": (hot.CLAIM_AGAIN, {**FENCE, "seq": 1, "run": ONE, "owner": ONE, "executor": "1:1"}),
    "landed": (hot.LANDED, {**FENCE, "seq": 1}),
    "ended": (hot.ENDED, {**FENCE, "seq": 1, "outcome": "held"}),
    "input_of": (births.INPUT_OF, {"id": ONE}),
    "inputs_of": (births.INPUTS_OF, {"ids": [ONE]}),
    "wake": (sweep.WAKE, {"limit": 10}),
    "overdue_queues": (sweep.OVERDUE_QUEUES, {"limit": 10, "ahead": 60.0}),
    "ring_again": (sweep.RING_AGAIN, {"limit": 10, "ahead": 0.0, "beyond": 0.0, "queues": ["keepstep"]}),
    "ring_lost": (sweep.RING_LOST, {"id": ONE, "seq": 1, "ahead": 0.0, "seconds": 300.0, "limit": 10}),
    "put_off_backlog": (sweep.PUT_OFF_BACKLOG, {"empty": ["keepstep"], "seconds": 300.0, "limit": 10}),
    "look_again": (sweep.LOOK_AGAIN, {"limit": 10}),
    "recover_nodes": (sweep.RECOVER_NODES, {**RECOVER, "owners": [ONE]}),
    "recover_executor": (sweep.RECOVER_EXECUTOR, {**RECOVER, "owner": ONE, "executor": "1:1"}),
    "recover_leases": (sweep.RECOVER_LEASES, {**RECOVER, "ids": [ONE], "leases": [ONE]}),
    "recover_overdue": (sweep.RECOVER_OVERDUE, {**RECOVER, "grace": 2.0}),
    "recover_unowned": (sweep.RECOVER_UNOWNED, RECOVER),
    "running_here": (sweep.RUNNING_HERE, {"owner": ONE, "limit": 10}),
    "who_runs": (sweep.WHO_RUNS, {"id": ONE, "seq": 1}),
    "overdue_waits": (sweep.OVERDUE_WAITS, {"limit": 10}),
    "undelivered": (sweep.UNDELIVERED, {"limit": 10}),
    "remove_node": (nodes.REMOVE, {"ids": [ONE]}),
    "lock_head": (signals.LOCK_HEAD, {"id": ONE}),
    "match": (signals.MATCH, {"id": ONE, "seq": 1}),
    "first_decision": (signals.FIRST_DECISION, {"id": ONE, "name": "approval"}),
    "last_wait": (signals.LAST_WAIT, {"id": ONE, "name": "approval"}),
    "hook": (hooks.ONE, {"id": 1}),
    "keep_reason": (hooks.KEEP_REASON, {"id": ONE, "event": "held"}),
    "chain_bytes": (reads.CHAIN_BYTES, {"id": ONE, "seq": 1}),
    "case": (reads.CASE, {"id": ONE}),
    "chain": (reads.CHAIN, {"id": ONE, "seq": 1}),
    "attempts": (reads.ATTEMPTS, {"id": ONE}),
    "lease_held": (hot.LEASE_HELD, FENCE),
    "lock_to_steer": (steering.LOCK_HEAD, {"id": ONE}),
    "lock_ended": (steering.LOCK_ENDED, {"id": ONE}),
    "place": (steering.PLACE["rewind"], {**CHECKPOINT, "id": ONE, "seq": 1}),
    "revive": (steering.REVIVE["retry"], {**CHECKPOINT, "id": ONE, "seq": 1, "overhead": 800}),
    "end": (steering.END["cancel"], {"id": ONE, "seq": 1}),
    "position": (steering.POSITION, {"id": ONE, "seq": 1}),
    "effects": (steering.EFFECTS, {"id": ONE, "after": 1}),
    "reopen_waits": (steering.REOPEN_WAITS, {"source": ONE, "id": ONE, "at": 1, "new_seq": 2}),
    "worth_a_look": (branches.WORTH_A_LOOK, {"parent": ONE, "parent_seq": 1, "failed": True}),
    "lock_to_look": (branches.LOCK_TO_LOOK, {"id": ONE, "key": 1}),
    "fan": (branches.FAN, {"id": ONE, "seq": 1, "large": 9, "most": 10}),
    "gather": (branches.GATHER, {"id": ONE, "seq": 1}),
    "clear": (branches.CLEAR, {"id": ONE, "seq": 1, "limit": 10, "error": "{}"}),
    "due_fans": (branches.DUE, {"limit": 10}),
    "undone_fans": (branches.UNDONE, {"limit": 10}),
    "left_fans": (branches.LEFT, {"limit": 10}),
    "leave_branches": (steering.LEAVE_BRANCHES, {"id": ONE}),
    "visits": (reads.VISITS, {"id": ONE, "steps": ["s1"], "seq": 9, "after": 1}),
    "audit": (steering.HISTORY, {"id": ONE}),
}

_NODE = """
insert into keepstep.nodes (id, host, host_id, process, lock_key, queues, workflows, pool, concurrency, version)
values (:id, 'h', 'h', '1:1', 1, '["keepstep"]', '{}', 'prefork', 1, '0')"""


@pytest.fixture
def crowded(db: Database) -> Database:
    crowd(db, 5000)
    return db


def test_no_hot_statement_reads_a_whole_table(crowded: Database) -> None:
    large = {"heads", "cases", "checkpoints"}
    for name, (statement, params) in PINNED.items():
        plan = "\n".join(str(row[0]) for row in crowded.all(sa.text(f"explain {statement}"), params))
        read_whole = {table for table in large if f"Seq Scan on {table}" in plan}
        assert not read_whole, f"{name} reads {read_whole} from end to end:\n{plan}"


def test_the_sweep_looks_at_no_waiting_case(crowded: Database) -> None:
    for name in ("wake", "overdue_queues", "recover_overdue", "recover_unowned", "running_here", "overdue_waits"):
        statement, params = PINNED[name]
        plan = "\n".join(str(row[0]) for row in crowded.all(sa.text(f"explain (analyze) {statement}"), params))
        assert "heads_due" in plan, plan
        assert "Rows Removed by Filter" not in plan, f"{name} passes over waiting cases:\n{plan}"


def test_a_backlog_that_was_put_off_is_not_read_though_statistics_still_have_it_due(crowded: Database) -> None:
    """They are as old as the last analysis: a minute, or more."""
    queued = sa.text("update keepstep.heads set status = 'queued', due_at = clock_timestamp() + :later")
    crowded.run(queued, {"later": timedelta(0)})
    crowded.run(sa.text("analyze"), {})
    crowded.run(queued, {"later": timedelta(minutes=5)})
    crowded.run(sa.text(_NODE), {"id": ONE})
    for name in ("overdue_queues", "put_off_backlog", "wake", "look_again", "recover_unowned", "running_here"):
        statement, params = PINNED[name]
        plan = "\n".join(str(row[0]) for row in crowded.all(sa.text(f"explain {statement}"), params | {"ahead": 0.0}))
        assert "Seq Scan on heads" not in plan, f"{name}\n{plan}"


def test_a_few_branches_of_a_long_list_are_made_without_reading_it(crowded: Database) -> None:
    """Not even where nothing is known of the list yet, because it was written just now."""
    for made in (
        "cases (id, run, workflow, thread_id, input) values (:id, :id, 'w', 'A', '{}')",
        "fans (case_id, seq, shape, on_error, max_running, total, made, kinds)"
        " values (:id, 1, 'list', 'fail', 10, 5000, 4000, :kinds)",
        "branches (case_id, seq, number, kind, payload) select :id, 1, n, 0, '{}' from generate_series(0, 4999) n",
    ):
        kind = {"workflow": "w.branches", "step": "s", "queue": "q", "timeout": 1, "in_doubt": "retry"}
        kinds = json.dumps([{**kind, "schema_version": 1, "pinned": True}])
        crowded.run(sa.text(f"insert into keepstep.{made}"), {"id": ONE, "kinds": kinds})
    ten = range(4000, 4010)
    bear = {
        "id": ONE,
        "seq": 1,
        "made": 4010,
        "numbers": list(ten),
        "parked": [None for _ in ten],
        "ids": [uuid4() for _ in ten],
        "runs": [uuid4() for _ in ten],
        "thread_ids": [f"T{n}" for n in ten],
    }
    for statement, params in ((branches.FAN, PINNED["fan"][1]), (branches.BEAR, bear)):
        plan = "\n".join(str(row[0]) for row in crowded.all(sa.text(f"explain (analyze) {statement}"), params))
        read = re.findall(r"actual time=\S+ rows=(\S+) loops=(\d+)", plan)
        assert 10 <= max(float(rows) * int(loops) for rows, loops in read) <= 100, plan


def test_a_hundred_thousand_messages_of_a_stream_are_not_read_for_a_decision(db: Database) -> None:
    hand = Hand(db)
    case = hand.start("A", flows.approve).case
    hand.step(case, 0, ask())
    crowded = "insert into keepstep.signals (case_id, name, payload, stream) select :id, 'chat', '1', true from "
    db.run(sa.text(f"{crowded} generate_series(1, 100000)"), {"id": case})
    db.run(sa.text(f"{crowded} generate_series(1, 100000)"), {"id": uuid4()})
    db.run(sa.text("analyze"), {})
    for name in ("first_decision", "match"):
        statement, params = PINNED[name]
        plan = "\n".join(
            str(row[0]) for row in db.all(sa.text(f"explain (analyze) {statement}"), params | {"id": case})
        )
        read = [int(rows) for rows in re.findall(r"Rows Removed by (?:Join )?Filter: (\d+)", plan)]
        assert "Seq Scan on signals" not in plan, plan
        assert sum(read) < 100, plan
