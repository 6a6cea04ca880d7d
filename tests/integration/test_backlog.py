"""A backlog is looked at seldom, and rung for at once when its messages are lost."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
import redis
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint import nodes
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.nodes import Node
from keepstep.testing.clock import Clock
from keepstep.workers.engine import Engine
from keepstep.workers.registry import Registry
from keepstep.workers.sweep import Sweep
from tests import flows
from tests.support.eventually import eventually
from tests.support.trace import Trace

PUT_OFF = sa.text("""
select count(*) as n from keepstep.heads
 where status = 'queued' and due_at > clock_timestamp() + interval '100 seconds' and due_at < 'infinity'
""")


@pytest.mark.slow
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


@pytest.fixture
def engine(client: Client, db: Database) -> Engine:
    return Engine(settings=client.settings, db=db, registry=Registry(flows.ALL), bell=client._bell)


def listed(broker_url: str) -> list[str]:
    """The thread ids of the messages in the queue, the oldest first."""
    with redis.Redis.from_url(broker_url) as valkey:
        found = [json.loads(message)["headers"]["argsrepr"] for message in valkey.lrange("keepstep", 0, -1)]
    return [shown.split("'")[1] for shown in reversed(found)]


@pytest.mark.parametrize("after_a_death", [False, True])
def test_a_message_that_is_lost_under_a_lasting_backlog_is_missed(
    clock: Clock, client: Client, db: Database, engine: Engine, broker_url: str, after_a_death: bool
) -> None:
    with db.connect() as connection:
        nodes.beat(connection, elsewhere("only"))
    client.start("once", "lost", {})
    with redis.Redis.from_url(broker_url) as valkey:
        valkey.flushdb()  # as if a killed worker had taken it
    clock.advance(10)
    for number in range(3):
        client.start("once", f"A{number}", {})
    sweep = Sweep(engine, lambda: set())
    if after_a_death:
        sweep._ring_again(ahead=60)
    else:
        clock.advance(15)
        sweep._look_at_due()
    assert listed(broker_url) == ["A0", "A1", "A2", "lost"], "and nothing twice"
    sweep._look_at_due()
    assert len(listed(broker_url)) == 4, "not again and again"


def elsewhere(*steps: str) -> Node:
    """A worker that takes from the queue, so that it is looked at; here it takes nothing."""
    return Node(
        id=uuid4(), host="elsewhere", host_id="elsewhere", process="1:1", queues=("keepstep",),
        workflows={"once": 1}, steps={"once": list(steps)}, pool="prefork", concurrency=1, version="1",
    )  # fmt: skip
