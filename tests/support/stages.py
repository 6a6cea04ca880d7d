"""Bring a case of workflow `approve` (ask, act, done, decline) into any status, by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from keepstep import Approval, Client, fail, finish, sleep, wait_for
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.ring import Ring
from keepstep.steps.decide import hold
from keepstep.steps.moves import Status
from tests import flows
from tests.support.eventually import eventually
from tests.support.hand import Hand

WF = "approve"


def ask(**options: Any) -> Any:
    return wait_for("approval", into="approval", payload=Approval, **options)


def bring(hand: Hand, client: Client, status: str, thread_id: str = "A") -> Ring:
    """A case at its first step, or just behind it, in this status."""
    ring = hand.start(thread_id, flows.approve)
    match Status(status):
        case Status.RUNNING:
            assert hand.claim(ring)
        case Status.SLEEPING:
            hand.step(ring, 0, sleep(3600, update={"value": "slept"}))
        case Status.WAITING:
            hand.step(ring, 0, ask(update={"value": "asked"}))
        case Status.HELD:
            hand.commit(hand.claim(ring), decision=hold("why", {"type": "OSError", "message": "the API is down"}))
        case Status.COMPLETED:
            hand.step(ring, 0, finish(value="done"))
        case Status.FAILED:
            hand.step(ring, 0, fail("not eligible"))
        case Status.CANCELLED:
            client.cancel(WF, thread_id)
        case Status.QUEUED:
            pass
    assert client.get(WF, thread_id).status == status
    return ring


def while_locked(
    db: Database, acts: Sequence[Callable[[], Any]], lock: str = "select 1 from keepstep.heads for update"
) -> list[Any]:
    """What the acts, run at once, return or raise, after each has really blocked on what `lock` holds.

    They are started one after the other, each when those before it wait, so the first is the first in PostgreSQL's
    queue. The holder changes nothing.
    """
    results: list[Any] = [None] * len(acts)

    def run(index: int) -> None:
        try:
            results[index] = acts[index]()
        except Exception as error:  # noqa: BLE001  (a refusal is a result)
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(acts))]
    blocked = sa.text(
        "select count(*) as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    )
    with db.engine.connect() as third:
        third = third.execution_options(isolation_level="READ COMMITTED")
        with third.begin() as transaction:
            third.execute(sa.text(lock))
            for number, thread in enumerate(threads, 1):
                thread.start()
                eventually(lambda n=number: db.all(blocked)[0].n == n, message=f"{number} really block")
            transaction.rollback()
    for thread in threads:
        thread.join(10)
    return results
