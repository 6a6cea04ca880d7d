"""What people see and do in Flower's pages about cases, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from keepstep import Client
from keepstep.checkpoint.database import Database
from keepstep.steps.keys import case_id
from tests import flows
from tests.browser.chromium import Page
from tests.conftest import StartWorker
from tests.support.eventually import eventually
from tests.support.flower import Process
from tests.support.hand import Hand
from tests.support.hostile import PAYLOAD, THREAD_IDS
from tests.support.stages import WF, ask, bring

Keep = Callable[[Page, str], None]

WINDOWS = [
    pytest.param(width, dark, id=f"{width}-{'dark' if dark else 'light'}")
    for width in (1400, 390)
    for dark in (False, True)
]


def at(flower: Process, thread_id: str = "A", more: str = "", workflow: str = WF) -> str:
    return f"{flower.url}/cases/{case_id(workflow, thread_id)}{more}"


@pytest.fixture
def furnished(flower: Process, hand: Hand, client: Client) -> Process:
    """A case in each status, and one whose every text is hostile."""
    for status in ("queued", "running", "sleeping", "waiting", "held", "completed", "failed", "cancelled"):
        bring(hand, client, status, f"{status}-1")
    for thread_id in THREAD_IDS:
        ring = hand.start(thread_id, flows.approve)
        hand.step(ring, 0, ask(prompt=PAYLOAD, update={"value": PAYLOAD}))
        client.pause(WF, thread_id, actor=thread_id[:255], reason=str(PAYLOAD)[:4000])
    return flower


@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_pages_fit_their_window_and_run_nobodys_script(
    furnished: Process, page: Page, keep: Keep, width: int, dark: bool
) -> None:
    page.window(width, dark=dark)
    pages = {
        "list": f"{furnished.url}/cases",
        "inbox": f"{furnished.url}/inbox",
        "decision": at(furnished, THREAD_IDS[0], "/decide/approval"),
        "verb": at(furnished, "held-1", "/rewind"),
        **{status: at(furnished, f"{status}-1") for status in ("waiting", "held", "completed", "running")},
        **{f"hostile-{number}": at(furnished, name) for number, name in enumerate(THREAD_IDS)},
    }
    for name, url in pages.items():
        page.goto(url)
        assert page.status == 200, url
        assert page.overflow() <= 0, f"{name} is wider than its window"
        assert page.js("document.documentElement.dataset.bsTheme") == ("dark" if dark else "light")
        keep(page, f"{name}-{width}-{'dark' if dark else 'light'}")


def test_words_can_be_told_from_what_is_behind_them(furnished: Process, page: Page) -> None:
    """WCAG's contrast of 4.5 for texts, in light and in dark."""
    for dark in (False, True):
        page.window(1400, dark=dark)
        for url in (f"{furnished.url}/cases", at(furnished, "held-1"), at(furnished, "waiting-1", "/decide/approval")):
            page.goto(url)
            faint = page.js(_CONTRAST)
            assert faint == [], f"{url}, dark: {dark}"


_CONTRAST = """(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
  const over = (a, b) => [0, 1, 2].map(i => a[i] * a[3] + b[i] * (1 - a[3])).concat(1);
  const light = c => { const l = c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2]; };
  const behind = e => { let layers = [];
    for (; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]); };
  const found = [];
  for (const e of document.querySelectorAll('main *:not(svg *)')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || e.closest('option, details:not([open]) > :not(summary)')) continue;
    const back = behind(e), front = over(rgba(getComputedStyle(e).color), back);
    const [a, b] = [light(back), light(front)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(e.className + ' "' + e.textContent.trim().slice(0, 40) + '" ' + ratio.toFixed(2));
  }
  return [...new Set(found)].slice(0, 10);
})()"""


def test_the_list_leads_to_a_case_and_back_by_filters(furnished: Process, page: Page) -> None:
    page.goto(f"{furnished.url}/cases")
    page.click(".ks-tile.ks-held")
    assert page.count("#list tbody tr") == 1
    page.fill("input[name=begins]", "held-")
    page.click(".ks-filters button")
    assert "status=held" in page.js("location.search")
    page.click("#list tbody a")
    assert page.text("h1") == "held-1"
    assert "It is held at ask" in page.text("#now")
    page.click('a.nav-link[href="/cases"]')
    assert page.text("h1") == "Cases"


def test_a_page_follows_its_case_by_itself(
    flower: Process, page: Page, client: Client, start_worker: StartWorker, keep: Keep
) -> None:
    client.start("ten", "A", {"seconds": 2.0})
    page.goto(at(flower, workflow="ten"))
    assert page.text("#status").strip() == "queued"
    page.js("window.stayed = true")
    start_worker()
    page.wait(lambda: "running" in page.text("#status"), "the page to show that a worker runs the step")
    keep(page, "following")
    page.wait(lambda: "completed" in page.text("#status"), "the page to show the end")
    page.wait(lambda: page.count(".ks-line") == 11, "all checkpoints in the timeline")
    assert page.js("window.stayed"), "without loading the page anew"
    assert page.count(".ks-bar rect.ks-p-run") == 10


def test_a_live_page_leaves_alone_what_somebody_is_using(
    flower: Process, page: Page, client: Client, hand: Hand
) -> None:
    bring(hand, client, "held")
    page.goto(at(flower))
    page.click("#errors summary", loads=False)
    page.wait(lambda: page.js("document.querySelector('#errors details').open"), "the attempt to unfold")
    client.pause(WF, "A", actor="ann")
    page.wait(lambda: "paused" in page.text("#status"), "the pause")
    assert page.js("document.querySelector('#errors details').open"), "what was unfolded stays so"


def test_a_verb_is_confirmed_and_done(flower: Process, page: Page, client: Client, hand: Hand, keep: Keep) -> None:
    bring(hand, client, "held")
    page.goto(at(flower))
    page.click('.ks-verbs a[href$="/retry"]')
    assert client.get(WF, "A").status == "held"
    page.click("form button[type=submit]", loads=False)
    assert client.get(WF, "A").status == "held", "the browser itself asks for who and why"
    page.fill("input[name=actor]", "ann")
    page.fill("textarea[name=reason]", "the API is back <b>")
    keep(page, "retry")
    page.click("form button[type=submit]")
    assert page.text(".ks-notice-success") == "The step is tried again."
    assert page.text("#status").strip() == "queued"
    assert "the API is back <b>" in page.text("#audit")
    assert client.get(WF, "A").status == "queued"


def test_what_would_repeat_effects_is_asked_about(flower: Process, page: Page, client: Client, hand: Hand) -> None:
    bring(hand, client, "waiting")
    page.goto(at(flower, more="/rewind"))
    page.fill("input[name=seq]", "0")
    page.fill("input[name=actor]", "ann")
    page.fill("textarea[name=reason]", "the wrong document")
    page.click("form button[type=submit]")
    assert "ask#0" in page.text(".ks-effects")
    assert client.get(WF, "A").seq == 1
    page.click("input[name=repeat_effects]", loads=False)
    page.click("form button[type=submit]")
    assert page.text(".ks-notice-success") == "The case was rewound."
    assert client.get(WF, "A").status == "queued"


def test_a_decision_is_made_in_the_inbox(flower: Process, page: Page, client: Client, hand: Hand, keep: Keep) -> None:
    ring = hand.start("A", flows.approve)
    hand.step(ring, 0, ask(prompt={"amount": 7, "why": "a long story. " * 20}))
    page.goto(f"{flower.url}/inbox")
    assert "amount" in page.text("#list")
    keep(page, "inbox-one")
    page.click("#list .btn-primary")
    page.fill('[name="p.note"]', "fine ✓")
    page.fill("input[name=actor]", "ann")
    page.click("button.btn-success")
    assert page.text(".ks-notice-success") == "The decision was sent."
    assert client.get(WF, "A").state["approval"] == {"approved": True, "actor": "ann", "note": "fine ✓"}
    page.goto(f"{flower.url}/inbox")
    assert "Nobody is waited for." in page.text("#list")


def test_without_a_script_everything_is_read_and_done_too(
    flower: Process, page: Page, client: Client, hand: Hand, keep: Keep
) -> None:
    bring(hand, client, "waiting")
    page.window(390)
    page.without_script()
    page.goto(at(flower))
    tree = page.send("DOM.getDocument", depth=1)["root"]["nodeId"]

    def outer(selector: str) -> str:
        found = page.send("DOM.querySelector", nodeId=tree, selector=selector)["nodeId"]
        return str(page.send("DOM.getOuterHTML", nodeId=found)["outerHTML"])

    assert "It waits for approval" in outer("#now")
    assert "ks-p-waiting" in outer("#timeline")
    assert "hidden" in outer("#ks-live"), "nothing says that it is live"
    keep(page, "without-script")


def test_trouble_is_said_on_the_open_page_and_passes(
    flower: Process, page: Page, client: Client, hand: Hand, db: Database, keep: Keep
) -> None:
    bring(hand, client, "waiting")
    page.goto(at(flower))
    db.run(sa.text("alter table keepstep.cases rename to away"), {})
    page.wait(lambda: "trying again" in page.text("#ks-live"), "the page to say that it is out of date")
    assert "It waits for approval" in page.text("#now"), "what was there stays to be read"
    page.goto(f"{flower.url}/cases")
    assert page.status == 503
    assert "keepstep db upgrade" in page.text("h1")
    keep(page, "trouble")
    db.run(sa.text("alter table keepstep.away rename to cases"), {})
    page.wait(lambda: page.text("h1") == "Cases", "the page to come back by itself")
    page.complaints[:] = [c for c in page.complaints if "503" not in c]


def test_a_case_that_goes_is_said_to_have_gone(
    flower: Process, page: Page, client: Client, hand: Hand, db: Database
) -> None:
    bring(hand, client, "completed")
    page.goto(at(flower))
    db.run(sa.text("delete from keepstep.cases"), {})
    page.wait(lambda: page.text("#ks-live").strip() == "This case has gone", "the page to say so")
    page.complaints[:] = [c for c in page.complaints if "404" not in c]


def test_tasks_and_cases_link_each_other(
    flower: Process, page: Page, client: Client, start_worker: StartWorker, keep: Keep
) -> None:
    eventually(lambda: "Connected to" in flower.log.read_text(), 20)
    start_worker()
    client.start("ten", "A/b c", {})
    client.wait("ten", "A/b c")
    page.goto(at(flower, "A/b c", workflow="ten"))

    def linked() -> Any:
        page.goto(at(flower, "A/b c", workflow="ten"))
        return page.count("#tasks li") == 10

    page.wait(linked, "ten tasks")
    page.click("#tasks a")
    assert "Task details" in page.text("#task-page").replace("TASK DETAILS", "Task details")
    keep(page, "task")
    page.click('a[href*="/cases/of-task/"]')
    assert page.text("h1") == "A/b c"
    assert "seq=" in page.js("location.search")
    page.goto(f"{flower.url}/workers")
    assert page.text(".navbar-nav").split() == ["Cases", "Inbox", "Workers", "Tasks", "Broker"]
