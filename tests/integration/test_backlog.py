"""A backlog is looked at seldom, and rung for at once when its messages are lost."""

from __future__ import annotations

import redis
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.testing.clock import Clock
from tests.support.eventually import eventually
from tests.support.trace import Trace

PUT_OFF = sa.text("""
select count(*) as n from keepstep.heads
 where status = 'queued' and due_at > clock_timestamp() + interval '100 seconds' and due_at < 'infinity'
""")


def test_a_backlog_is_put_off_and_rung_again_when_its_messages_are_lost(
    clock: Clock, client: Client, db: Database, start_worker, trace: Trace, broker_url: str
) -> None:
    start_worker(concurrency=1)
    client.start("once", "busy", {"seconds": 25})
    eventually(lambda: trace.lines("busy"), 20)
    client.start_many("once", {f"A{i}": {} for i in range(20)})
    client.start("once", "elsewhere", {}, queue="nobody")
    clock.advance(15)
    eventually(lambda: db.all(PUT_OFF)[0].n == 21, 20, "all that waits is put off")
    with redis.Redis.from_url(broker_url) as valkey:
        assert valkey.llen("keepstep") <= 20, "a second message for none"
        valkey.flushdb()
        eventually(lambda: valkey.llen("keepstep") >= 19, 15, "rung again, though due much later")
    eventually(lambda: client.counts("once").get("completed", 0) == 21, 60, "the whole backlog is worked off")
    assert all(len(trace.lines(f"A{i}", "only")) == 1 for i in range(20))


def test_what_waits_in_a_queue_that_nobody_read_is_rung_by_the_first_who_does(
    clock: Clock, client: Client, db: Database, start_worker, broker_url: str
) -> None:
    start_worker()
    client.start("once", "elsewhere", {}, queue="nobody")
    clock.advance(15)
    eventually(lambda: db.all(PUT_OFF)[0].n == 1, 20)
    with redis.Redis.from_url(broker_url) as valkey:
        valkey.flushdb()
    start_worker(queues="nobody")
    assert client.wait("once", "elsewhere", 20).status == "completed"
