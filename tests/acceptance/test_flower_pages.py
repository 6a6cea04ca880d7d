"""The pages about cases in Flower: what they show, what their forms do, and what they refuse."""

from __future__ import annotations

import html
import json
import re
import time
from base64 import b64encode
from collections.abc import Iterator
from uuid import uuid4

import pytest
import sqlalchemy as sa

from keepstep import Approval, Client, finish
from keepstep.checkpoint.database import Database
from keepstep.config.settings import Settings
from keepstep.steps.decide import hold
from keepstep.steps.keys import case_id
from tests import flows, secret_flows
from tests.support.crowd import crowd
from tests.support.flower import Answer, Here, Visitor
from tests.support.hand import Hand
from tests.support.hostile import PAYLOAD, THREAD_IDS
from tests.support.stages import WF, ask, bring

SAID = {"actor": "ann", "reason": "the vault is back"}


@pytest.fixture
def settings(database_url: str, broker_url: str) -> Settings:
    return Settings(database_url=database_url, broker_url=broker_url, workflows="tests.flows")


@pytest.fixture
def here(settings: Settings) -> Iterator[Here]:
    here = Here(settings)
    yield here
    here.stop()


@pytest.fixture
def visitor(here: Here) -> Visitor:
    return Visitor(here.url)


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def path(thread_id: str = "A", more: str = "", workflow: str = WF) -> str:
    return f"/cases/{case_id(workflow, thread_id)}{more}"


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


# ------------------------------------------------------------------------------------------------------------- the list
def test_the_list_filters_searches_and_counts(visitor: Visitor, client: Client, hand: Hand) -> None:
    for status in ("held", "waiting", "completed"):
        bring(hand, client, status, f"{status}-1")
    client.start("ten", "T_1", {}, tags={"tenant": "acme"})
    client.start("ten", "TX1", {})

    def shown(query: str) -> list[str]:
        return re.findall(r"<bdi>([^<]+)</bdi></a>", visitor.get(f"/cases?{query}").text)

    assert shown("") == ["TX1", "T_1", "completed-1", "waiting-1", "held-1"]
    assert shown("status=held") == ["held-1"]
    assert shown("workflow=ten&tag=tenant%3Dacme") == ["T_1"]
    assert shown("begins=T_") == ["T_1"], "an underscore is no wildcard"
    assert shown("begins=wait") == ["waiting-1"]
    assert shown("error=API+is+DOWN") == ["held-1"]
    assert shown("older=1h") == []
    assert visitor.get(f"/cases?begins={case_id('ten', 'T_1')}").url.endswith(path("T_1", workflow="ten"))
    tile = r'count">([0-9,+]+)</span>\s*<span class="ks-tile-name"><span[^>]*></span>(\w+)</span>'
    tiles = set(re.findall(tile, visitor.get("/cases").text))
    assert {("1", "held"), ("1", "waiting"), ("1", "completed"), ("2", "queued"), ("0", "failed")} <= tiles
    assert visitor.get("/cases?status=nonsense").status == 400
    wrong = visitor.get("/cases?older=long&begins=%3Cb%3E")
    assert wrong.status == 400
    assert "is no length of time" in wrong.text
    assert 'value="&lt;b&gt;"' in wrong.text, "what was typed stays in its field"
    assert visitor.get("/cases?cursor=nonsense").status == 400


def test_a_page_of_the_list_leads_to_the_next_one(visitor: Visitor, client: Client) -> None:
    client.start_many("ten", {f"A{n}": {} for n in range(120)})
    url, seen = "/cases", []
    while True:
        page = visitor.get(url)
        seen += re.findall(r"<bdi>(A\d+)</bdi>", page.text)
        onward = re.search(r'rel="next" href="([^"]+)"', page.text)
        if onward is None:
            break
        url = html.unescape(onward[1])
    assert len(seen) == len(set(seen)) == 120


def test_ten_thousand_cases_are_listed_quickly(visitor: Visitor, db: Database) -> None:
    crowd(db, 10_000)
    lists = ("", "?status=waiting", "?begins=W77", "?workflow=approve", "?status=failed", "?older=1s&step=ask")
    for url in (*(f"/cases{query}" for query in lists), "/inbox"):
        took = []
        for _ in range(5):
            began = time.monotonic()
            assert visitor.get(url).status == 200
            took.append(1000 * (time.monotonic() - began))
        print(f"{url}: {sorted(took)[2]:.0f} ms, {max(took):.0f} ms at worst")
        assert min(took) < 1000, "a bound against mistakes, not a measurement"
    assert "10,000" in visitor.get("/cases").text


# ------------------------------------------------------------------------------------------------------------- a case
def test_a_cases_page_shows_what_the_case_did_and_does(visitor: Visitor, client: Client, hand: Hand) -> None:
    ring = bring(hand, client, "waiting")
    client.signal(WF, "A", "another", {"early": 1}, actor="bob")
    client.pause(WF, "A", actor="ann", reason="a holiday")
    page = visitor.get(path()).text
    for text in ("It was paused by ann", "asked", "another", "bob", "a holiday", str(ring.case), "ks-here", "/value"):
        assert text in page, text
    assert "Resume…" in page
    assert "Pause…" not in page, "a verb that the case doesn't take has no button"
    first = visitor.get(path(more="?seq=0")).text
    assert "State at checkpoint 0" in first
    assert visitor.get(path(more="?seq=7")).status == 404
    assert visitor.get(path(more="?seq=-1")).status == 400
    state = visitor.get(path(more="/state/1"))
    assert json.loads(state.text)["value"] == "asked"
    assert "attachment" in state.headers["Content-Disposition"]
    assert visitor.get(path("nobody")).status == 404
    assert visitor.get(f"/cases/{uuid4()}").status == 404


def test_a_cases_page_has_a_version_that_changes_with_it(visitor: Visitor, client: Client, hand: Hand) -> None:
    bring(hand, client, "waiting")
    seen = {visitor.get(path(more="/version")).text for _ in range(3)}
    assert len(seen) == 1
    client.pause(WF, "A")
    client.signal(WF, "A", "other")
    assert visitor.get(path(more="/version")).text not in seen
    gone = visitor.get(path("nobody", "/version"))
    assert gone.status == 404
    assert "no such case" in json.loads(gone.text)["error"]


def test_a_case_shows_its_parent_and_its_children(visitor: Visitor, client: Client, hand: Hand, db: Database) -> None:
    bring(hand, client, "waiting")
    for thread_id in ("A/part[1]", "A/part[2]"):
        hand.start(thread_id, flows.ten)
    db.run(sa.text("update keepstep.cases set parent = :id where workflow = 'ten'"), {"id": case_id(WF, "A")})
    page = visitor.get(path()).text
    assert page.count('<span class="ks-kind">child</span>') == 2
    assert path("A/part[2]", workflow="ten") in page
    assert '<span class="ks-kind">parent</span>' in visitor.get(path("A/part[1]", workflow="ten")).text


def test_a_long_case_is_shown_stretch_by_stretch(visitor: Visitor, client: Client, hand: Hand, db: Database) -> None:
    case = hand.start("A", flows.ten).case
    many = """insert into keepstep.checkpoints
        (case_id, seq, kind, step, status, target, attempt, schema_version, is_snapshot, payload, started_at)
        select :id, n, 'step', 's2', 'queued', 's2', 1, 1, false, '[]', now() from generate_series(1, 450) n"""
    db.run(sa.text(many), {"id": case})
    db.run(sa.text("update keepstep.heads set seq = 450, step = 's2'"), {})
    page = visitor.get(path(workflow="ten")).text
    assert page.count('role="listitem"') == 101, "a hundred checkpoints, and now"
    before = re.search(r'href="([^"]+before=\d+[^"]*)"', page)
    assert before is not None
    earlier = visitor.get(html.unescape(before[1])).text
    assert "state at checkpoint 350" in earlier
    assert "state at checkpoint 351" not in earlier


def test_hostile_texts_are_texts_on_every_page(visitor: Visitor, client: Client, hand: Hand) -> None:
    own = ("", "?seq=1", "/cancel", "/fork", "/decide/approval")
    for thread_id in THREAD_IDS:
        ring = hand.start(thread_id, flows.approve)
        hand.step(ring, 0, ask(prompt=PAYLOAD, update={"value": PAYLOAD}))
        client.signal(WF, thread_id, "other", PAYLOAD, actor=thread_id[:100])
        client.pause(WF, thread_id, actor=thread_id[:255], reason=thread_id)
        for page in (path(thread_id, more) for more in own):
            _check_harmless(visitor.get(page), f"{thread_id!r}: {page}")
    for page in (
        "/cases",
        "/inbox",
        "/cases?begins=%3Cscript%3Ealert(4)&step=%22%3E%3Csvg%20onload%3D",
        "/cases?tag=%3Cb%3E",
    ):
        _check_harmless(visitor.get(page), page)


def _check_harmless(answer: Answer, page: str) -> None:
    assert answer.status in (200, 400), page
    for harm in ("<script>alert", "<img src=x", "<svg onload", "\u202e", "\u2066"):
        assert harm not in answer.text, page
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


def test_secrets_are_on_no_page(visitor: Visitor, client: Client, db: Database) -> None:
    """Also where Flower hasn't the workflow's code."""
    hand = Hand(db, known='{"telling": 1}')
    people = [{"name": "Ann", "number": "0815-number"}]
    client.start(secret_flows.telling, "T", {"token": "t0ken-of-hers", "pin": 99887766, "people": people})
    client.signal("telling", "T", "other", {"number": "4711-number"}, actor="eve")
    claim = hand.claim(client.get("telling", "T").id)
    assert claim is not None
    said = {"type": "RuntimeError", "message": "t0ken-of-hers was refused", "traceback": "... 0815-number"}
    hand.commit(claim, decision=hold("t0ken-of-hers", said))
    client.pause("telling", "T", actor="ann", reason="99887766 is wrong")
    case = path("T", workflow="telling")
    for page in (case, f"{case}?seq=0", f"{case}/state/0", f"{case}/retry", f"{case}/skip", "/inbox"):
        answer = visitor.get(page)
        assert answer.status == 200, page
        for secret in ("t0ken-of-hers", "0815-number", "4711-number", "99887766"):
            assert secret not in answer.text, f"{secret} is on {page}"
    assert "***" in visitor.get(case).text


# ------------------------------------------------------------------------------------------------------------- verbs
def test_a_verb_is_done_once_it_is_confirmed_and_its_actor_and_reason_are_kept(
    visitor: Visitor, client: Client, hand: Hand
) -> None:
    bring(hand, client, "held")
    form = visitor.get(path(more="/retry"))
    assert "Retry?" in form.text
    assert client.get(WF, "A").status == "held", "looking does nothing"
    for missing in ("actor", "reason"):
        refused = visitor.post(path(more="/retry"), {**SAID, missing: " "})
        assert refused.status == 409
        assert client.get(WF, "A").status == "held"
    done = visitor.post(path(more="/retry"), SAID)
    assert done.status == 200
    assert "The step is tried again." in done.text
    assert client.get(WF, "A").status == "queued"
    act = next(event for event in client.history(WF, "A") if event.kind == "audit")
    assert (act.step, act.detail["actor"], act.detail["reason"]) == ("retry", "ann", "the vault is back")
    again = visitor.post(path(more="/retry"), SAID)
    assert again.status == 409
    assert "only a held or failed case can be retried" in again.text
    assert "the vault is back" in again.text, "what was typed is kept"


def test_a_verb_that_repeats_effects_asks_first(visitor: Visitor, client: Client, hand: Hand) -> None:
    bring(hand, client, "waiting")
    order = {**SAID, "seq": "0", "seen": "1"}
    asked = visitor.post(path(more="/rewind"), order)
    assert asked.status == 200
    assert "ask#0" in asked.text
    assert client.get(WF, "A").seq == 1
    assert visitor.post(path(more="/rewind"), {**order, "seen": "0", "repeat_effects": "on"}).status == 409
    assert visitor.post(path(more="/rewind"), {**order, "seq": "x"}).status == 409
    assert visitor.post(path(more="/rewind"), {**order, "repeat_effects": "on"}).status == 200
    assert client.get(WF, "A").step == "ask"
    forked = visitor.post(path(more="/fork"), {**SAID, "seq": "0", "new_thread_id": "B/<b>", "repeat_effects": "on"})
    assert forked.url.startswith(visitor.url + path("B/<b>"))
    skipped = visitor.post(path(more="/skip"), {**SAID, "seen": "2", "update": "[1]"})
    assert "JSON object" in skipped.text
    assert visitor.post(path(more="/skip"), {**SAID, "seen": "2", "update": '{"value": "by hand"}'}).status == 200
    assert client.get(WF, "A").state["value"] == "by hand"


def test_a_form_that_no_page_of_ours_made_does_nothing(visitor: Visitor, client: Client, hand: Hand) -> None:
    bring(hand, client, "held")
    forged = [
        visitor.post(path(more="/retry"), SAID, token=""),
        visitor.post(path(more="/retry"), SAID, token="2|aaaaaaaa|bbbbbbbb|1"),
        visitor.post(path(more="/retry"), SAID, Origin="http://evil.example"),
        visitor.post(path(more="/retry"), SAID, **{"Sec-Fetch-Site": "cross-site"}),
        visitor.get("/cases", Host="evil.example"),
    ]
    assert [answer.status for answer in forged] == [403] * 5
    assert all("nothing was done" in answer.text for answer in forged[:4])
    assert client.get(WF, "A").status == "held"
    assert [e for e in client.history(WF, "A") if e.kind == "audit"] == []


def test_whoever_signed_in_is_the_actor(settings: Settings, client: Client, hand: Hand) -> None:
    here = Here(settings, basic_auth=["ann:secret", "bob:other"])
    try:
        bring(hand, client, "waiting")
        assert Visitor(here.url).get(path()).status == 401
        assert Visitor(here.url, Authorization=basic("ann", "wrong")).get(path()).status == 401
        assert Visitor(here.url, Authorization="Basic nonsense").get("/inbox").status == 401
        assert Visitor(here.url).post(path(more="/pause"), SAID, token="").status == 403
        ann = Visitor(here.url, Authorization=basic("ann", "secret"))
        assert 'name="actor"' not in ann.get(path(more="/pause")).text
        assert ann.post(path(more="/pause"), {"actor": "the boss", "reason": "why not"}).status == 200
        [act] = [event for event in client.history(WF, "A") if event.kind == "audit"]
        assert act.detail["actor"] == "ann", "the form can't say somebody else"
    finally:
        here.stop()


def test_a_session_that_has_ended_does_nothing(settings: Settings, client: Client, hand: Hand) -> None:
    here = Here(settings, auth=".*@example.com")
    try:
        bring(hand, client, "held")
        visitor = Visitor(here.url)
        asked = visitor.get(path())
        assert "/login?next=" in asked.url
        assert visitor.get(path(more="/version")).status == 403, "a script wants no login page"
        token = "x" * 32
        refused = visitor.post(path(more="/retry"), SAID, token=token, Cookie=f"_xsrf={token}")
        assert refused.status == 403
        assert client.get(WF, "A").status == "held"
    finally:
        here.stop()


def test_a_read_only_flower_shows_and_does_nothing(settings: Settings, client: Client, hand: Hand) -> None:
    here = Here(settings, read_only=True)
    try:
        bring(hand, client, "waiting")
        visitor = Visitor(here.url)
        page = visitor.get(path()).text
        assert "It waits for approval" in page
        assert "Cancel…" not in page
        assert "Decide" not in page + visitor.get("/inbox").text
        for more in ("/cancel", "/decide/approval"):
            assert visitor.get(path(more=more)).status == 403
            assert visitor.post(path(more=more), {**SAID, "p.approved": "true"}).status == 403
        assert client.get(WF, "A").status == "waiting"
    finally:
        here.stop()


# ------------------------------------------------------------------------------------------------------------- inbox
def test_a_decision_is_made_by_a_form(visitor: Visitor, client: Client, hand: Hand) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask(prompt={"amount": 7}))
    assert "amount" in visitor.get("/inbox").text
    form = visitor.get(path(more="/decide/approval")).text
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', form)
    assert digest is not None
    answer = {"actor": "ann", "p.note": "seems\nfine", "digest": digest[1]}
    assert visitor.post(path(more="/decide/approval"), answer).status == 409, "neither yes nor no"
    stale = visitor.post(path(more="/decide/approval"), {**answer, "p.approved": "true", "digest": "0" * 12})
    assert stale.status == 409
    assert client.get(WF, "A").status == "waiting"
    assert visitor.post(path(more="/decide/approval"), {**answer, "p.approved": "true"}).status == 200
    case = client.get(WF, "A")
    assert Approval(**case.state["approval"]) == Approval(approved=True, actor="ann", note="seems\nfine")
    late = visitor.post(path(more="/decide/approval"), {**answer, "p.approved": "false"})
    assert late.status == 409
    assert "isn't asked any more" in html.unescape(late.text)


def test_the_inbox_has_pages(visitor: Visitor, db: Database) -> None:
    crowd(db, 75)
    url, seen = "/inbox", []
    for _ in range(5):
        page = visitor.get(url)
        seen += re.findall(r"<bdi>(W\d+)</bdi>", page.text)
        onward = re.search(r'rel="next" href="([^"]+)"', page.text)
        if onward is None:
            break
        url = html.unescape(onward[1])
    assert len(seen) == len(set(seen)) == 75
    assert visitor.get("/inbox?cursor=nonsense").status == 400


# ------------------------------------------------------------------------------------------------------------- trouble
def test_a_database_that_is_away_is_said_without_a_leak(settings: Settings) -> None:
    away = Settings(**{**settings.model_dump(), "database_url": "postgresql://me:secret@127.0.0.1:1/x"})
    here = Here(away, debug=True)
    try:
        for page in ("/cases", "/inbox", path(), path(more="/cancel")):
            answer = Visitor(here.url).get(page)
            assert answer.status == 503
            assert "PostgreSQL can&#x27;t be reached" in answer.text or "PostgreSQL can&#39;t be reached" in answer.text
            for leak in ("Traceback", "secret", "127.0.0.1:1", "psycopg"):
                assert leak not in answer.text
        told = Visitor(here.url).get(path(more="/version"))
        assert told.status == 503
        assert "PostgreSQL" in json.loads(told.text)["error"]
    finally:
        here.stop()


def test_a_database_without_tables_says_what_to_run(settings: Settings, db: Database) -> None:
    db.run(sa.text("drop schema keepstep cascade"), {})
    here = Here(settings)
    try:
        answer = Visitor(here.url).get("/cases")
        assert answer.status == 503
        assert "keepstep db upgrade" in answer.text
    finally:
        here.stop()


def test_with_the_broker_away_verbs_are_kept_and_said_to_be(settings: Settings, client: Client, hand: Hand) -> None:
    bring(hand, client, "held")
    here = Here(Settings(**{**settings.model_dump(), "broker_url": "redis://127.0.0.1:1/0"}))
    try:
        visitor = Visitor(here.url)
        assert "Redis can't be reached" in html.unescape(visitor.get("/cases").text)
        done = visitor.post(path(more="/retry"), SAID)
        assert done.status == 200
        assert "goes on when Redis is back" in done.text
        assert client.get(WF, "A").status == "queued"
    finally:
        here.stop()


def test_a_case_that_goes_while_its_page_is_open(visitor: Visitor, client: Client, hand: Hand, db: Database) -> None:
    hand.step(hand.start("A", flows.once), 0, finish())
    assert visitor.get(path(workflow="once")).status == 200
    for table in ("cases", "checkpoints"):
        db.run(sa.text(f"delete from keepstep.{table}"), {})
    for more in ("", "/version", "/fork"):
        assert visitor.get(path(more=more, workflow="once")).status == 404
    assert visitor.post(path(more="/restart", workflow="once"), SAID).status == 404


def test_under_a_prefix_all_links_have_it(settings: Settings, client: Client, hand: Hand) -> None:
    bring(hand, client, "waiting")
    here = Here(settings, url_prefix="tools")
    try:
        visitor = Visitor(here.url)
        page = visitor.get("/tools" + path())
        assert page.status == 200
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
        ours = [link for link in links if "/static/" not in link]
        assert ours
        assert all(link.startswith("/tools/") for link in ours), ours
        assert visitor.get(next(link for link in ours if "keepstep.css" in link)).status == 200
    finally:
        here.stop()
