"""Filters: which cases a list shows and a verb moves, and what can't be one."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from keepstep import Client, errors
from keepstep.checkpoint import reads
from keepstep.checkpoint.database import Database
from keepstep.checkpoint.filters import Filter
from tests import flows
from tests.support.hand import Hand
from tests.support.stages import WF, bring


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def test_a_verb_takes_the_filters_of_list(client: Client, hand: Hand) -> None:
    bring(hand, client, "held")
    [found] = client.retry_many(workflow=flows.approve, older_than=timedelta(0), error="the API", dry_run=True)
    assert found.thread_id == "A"
    assert client.retry_many(workflow=WF, older_than=timedelta(hours=1), dry_run=True) == []
    assert client.inbox(workflow=flows.approve) == []
    assert client.counts(flows.approve) == {"held": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"workflow": "\0"},
        {"workflow": "\ud800"},
        {"workflow": 7},
        {"step": "\ud800"},
        {"error": "\ud800"},
        {"status": "\0"},
        {"older_than": 1e20},
        {"older_than": -1},
        {"older_than": "1h"},
        {"tags": {"a": "\0"}},
        {"tags": {1: 2}},
    ],
    ids=str,
)
def test_what_no_case_can_have_is_refused_before_the_database_sees_it(client: Client, wrong: dict[str, Any]) -> None:
    for find in (client.list, client.cancel_many):
        with pytest.raises((errors.BadFilter, errors.BadStart)):
            find(**wrong)


@pytest.mark.parametrize("limit", [-1, 2**40, 1.5, True, "5"])
def test_a_limit_is_a_number_of_rows(client: Client, limit: Any) -> None:
    for find in (client.list, client.inbox):
        with pytest.raises(errors.BadFilter, match="limit"):
            find(limit=limit)


def test_names_that_no_workflow_has_are_refused_everywhere(client: Client) -> None:
    for find in (client.counts, lambda name: client.inbox(workflow=name)):
        with pytest.raises(errors.BadFilter):
            find("\0")
    for ask in (client.get, lambda *case: client.signal(*case, "x"), client.cancel, client.why):
        for name in ("\ud800", "\0", 7):
            with pytest.raises(errors.UnknownCase):
                ask(name, "A")


def test_a_checkpoint_is_a_number(client: Client, hand: Hand) -> None:
    bring(hand, client, "queued")
    with pytest.raises(errors.NotRewindable, match="whole number"):
        client.rewind(WF, "A", to="x")
    with pytest.raises(errors.NotForkable, match="whole number"):
        client.fork(WF, "A", at=0.5, new_thread_id="B")


def test_a_case_that_moves_from_one_status_to_another_is_neither_missed_nor_found_twice(
    client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = hand.start("A")
    claim = hand.claim(ring)
    looks: list[Filter] = []
    look = reads.select

    def moved_after_the_look(db: Database, which: Filter, **options: Any) -> Any:
        page = look(db, which, **options)
        if not looks:
            hand.commit(claim)  # from running to queued
        looks.append(which)
        return page

    monkeypatch.setattr(reads, "select", moved_after_the_look)
    [found] = client.cancel_many(workflow="ten")
    assert (found.thread_id, found.refused) == ("A", None)
    assert client.get("ten", "A").status == "cancelled"
    assert len(looks) == 1, "by one look at all statuses"


def test_a_verb_finds_live_and_ended_cases_at_once(client: Client, hand: Hand) -> None:
    for status in ("held", "failed", "completed", "waiting"):
        bring(hand, client, status, status)
    assert {one.thread_id for one in client.retry_many(workflow=WF, dry_run=True)} == {"held", "failed"}
    assert {one.thread_id for one in client.cancel_many(workflow=WF, dry_run=True)} == {"held", "waiting"}
