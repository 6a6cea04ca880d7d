"""Votes: where several people must agree, who is counted, and with whom."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepstep import AlreadyDecided, Client, wait_any, wait_for
from keepstep.checkpoint import waits
from keepstep.checkpoint.database import Database
from keepstep.steps.errors import BadSignal, CaseFinished
from tests import flows
from tests.support.hand import Hand
from tests.support.several import YES, Ask, approval, asking, several


@pytest.fixture
def hand(db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, several])
    return Hand(db, known='{"several": 1}')


@pytest.fixture
def client(database_url: str, broker_url: str) -> Iterator[Client]:
    with Client(database_url, broker_url, workflows=[several]) as client:
        yield client


@pytest.fixture
def ask(hand: Hand) -> Ask:
    return asking(hand)


def refused(client: Client) -> list[str | None]:
    return [event.detail["refused"] for event in client.history("several", "A") if event.kind == "sent"]


def test_people_who_disagree_are_not_counted_together(client: Client, ask: Ask) -> None:
    ask(wait_for("a", into="a", choices=["yes", "no"], approvers=2))
    assert client.signal("several", "A", "a", "no", actor="ann").fate == "counted"
    with pytest.raises(AlreadyDecided) as told:
        client.signal("several", "A", "a", "yes", actor="bob")
    assert told.value.first == "no"
    assert client.get("several", "A").status == "waiting"
    assert client.signal("several", "A", "a", "no", actor="bob").fate == "delivered"
    assert client.get("several", "A").state["a"] == "no"


def test_people_agree_whatever_their_names_and_notes(client: Client, ask: Ask) -> None:
    ask(approval(approvers=2))
    client.approve("several", "A", actor="ann", note="fine")
    assert client.approve("several", "A", actor="bob", note="as discussed").fate == "delivered"


@pytest.mark.parametrize("actor", ["", " ", "\t\n"])
def test_nobody_is_no_actor(client: Client, ask: Ask, actor: str) -> None:
    ask(approval(approvers=2))
    with pytest.raises(BadSignal, match="actor"):
        client.approve("several", "A", actor=actor)


def test_an_actor_is_the_same_with_a_blank_behind(client: Client, ask: Ask) -> None:
    ask(approval(approvers=2))
    client.signal("several", "A", "approval", YES, actor="ann")
    assert client.signal("several", "A", "approval", YES, actor=" ann ").fate == "repeated"


def test_an_early_decision_of_nobody_is_refused_where_several_are_wanted(
    client: Client, hand: Hand, db: Database
) -> None:
    ring = hand.start("A", several)
    client.signal("several", "A", "approval", YES)
    hand.step(ring, 0, approval(approvers=2))
    waits.deliver(db, ring.case)
    assert "nobody said who this one is" in refused(client)[0]
    assert client.inbox()[0].votes == 0


def test_an_early_decision_is_the_first_vote(client: Client, hand: Hand, db: Database) -> None:
    ring = hand.start("A", several)
    client.approve("several", "A", actor="ann")
    hand.step(ring, 0, approval(approvers=2))
    waits.deliver(db, ring.case)
    assert client.inbox()[0].votes == 1
    assert client.approve("several", "A", actor="bob").fate == "delivered"


def test_each_of_those_who_decided_may_repeat_it(client: Client, ask: Ask) -> None:
    ask(approval(approvers=2))
    for actor in ("ann", "bob"):
        client.approve("several", "A", actor=actor)
    for actor in ("ann", "bob"):
        assert client.approve("several", "A", actor=actor).fate == "repeated"
    with pytest.raises(AlreadyDecided):
        client.approve("several", "A", actor="eve")


def test_a_vote_for_a_question_that_was_dropped_blocks_no_later_decision(
    client: Client, hand: Hand, ask: Ask, db: Database
) -> None:
    ring = ask(wait_any(approval(approvers=2, then="after_a"), wait_for("b", into="b", then="after_b")))
    client.approve("several", "A", actor="ann")
    client.signal("several", "A", "b", 1)
    assert client.approve("several", "A", actor="bob").fate == "kept"
    hand.step(ring, 2, approval())
    assert waits.deliver(db, ring.case) is not None


def test_a_rewind_frees_the_keys_of_votes_too(client: Client, ask: Ask) -> None:
    ask(approval(approvers=2))
    for actor in ("ann", "bob"):
        client.signal("several", "A", "approval", YES, actor=actor, dedupe_key=actor)
    client.rewind("several", "A", to=1, repeat_effects=True)
    fates = [client.signal("several", "A", "approval", YES, actor=a, dedupe_key=a).fate for a in ("ann", "bob")]
    assert fates == ["counted", "delivered"]


def test_each_vote_can_be_repeated_by_its_key_after_the_case_has_ended(client: Client, hand: Hand, ask: Ask) -> None:
    ring = ask(approval(approvers=2, then="end"))
    for actor in ("ann", "bob"):
        client.signal("several", "A", "approval", YES, actor=actor, dedupe_key=actor)
    hand.step(ring, 2)
    assert client.get("several", "A").ended
    for actor in ("ann", "bob"):
        assert client.signal("several", "A", "approval", YES, actor=actor, dedupe_key=actor).fate == "repeated"
    with pytest.raises(CaseFinished):
        client.signal("several", "A", "approval", YES, actor="eve", dedupe_key="eve")
