"""The page of a case that fans out, and those of its branches, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepstep.testing.runner import Runner
from tests import branch_flows
from tests.browser.chromium import Page
from tests.browser.test_pages import WINDOWS, Keep, at
from tests.support.flower import Process
from tests.support.hostile import PAYLOAD, THREAD_IDS

WF = "fanning"


@pytest.fixture
def runner(database_url: str) -> Iterator[Runner]:
    with Runner(database_url, workflows=branch_flows.ALL) as runner:
        yield runner


def fan_out(runner: Runner, thread_id: str, *does: str, **how: object) -> None:
    items = [{"n": n, "does": what} for n, what in enumerate(does)]
    runner.start(WF, thread_id, {"over": items, "how": how})
    runner.run(skip_time=True)


@pytest.mark.parametrize(("width", "dark"), WINDOWS)
def test_a_fan_out_shows_how_far_it_is_and_leads_to_its_branches_and_back(
    flower: Process, runner: Runner, page: Page, keep: Keep, width: int, dark: bool
) -> None:
    fan_out(runner, "A", *["double"] * 30, "raise", "ask", *["double"] * 6, "ask", max_running=3, on_error="collect")
    page.window(width, dark=dark)
    page.goto(at(flower, "A", workflow=WF))
    assert page.overflow() <= 0
    shown = page.text("#branches")
    assert "36 of 39 over" in shown
    assert "3 at a time" in shown
    for status in ("36 completed", "1 held", "2 waiting"):
        assert status in shown
    assert "It waits for 3 of its 39 branches" in page.text("#now")
    assert "A/work#1[30] is held" in page.text("#now")
    keep(page, f"branches-{width}-{'dark' if dark else 'light'}")
    page.click("#branches tbody a")
    assert page.text("h1") == "A/work#1[30]", "the held one comes first"
    assert "It is a branch of fanning/A" in page.text("#now")
    page.click("#relatives a")
    assert page.text("h1") == "A"


def test_a_fan_out_s_page_follows_its_branches_by_itself(
    flower: Process, runner: Runner, page: Page, keep: Keep
) -> None:
    fan_out(runner, "A", "ask", "ask", max_running=1)
    page.goto(at(flower, "A", workflow=WF))
    assert "0 of 2 over" in page.text("#branches")
    assert "1 to begin" in page.text("#branches")
    runner.client.signal("fanning.branches", "A/work#1[0]", "answer", 1)
    runner.run()
    page.wait(lambda: "1 of 2 over" in page.text("#branches"), "the page to show the branch's end")
    runner.client.signal("fanning.branches", "A/work#1[1]", "answer", 2)
    runner.run()
    page.wait(lambda: "2 of 2 over" in page.text("#branches"), "the page to show the last end")
    assert "joined" in page.text("#branches")


def test_a_fan_out_with_hostile_names_runs_nobodys_script(flower: Process, runner: Runner, page: Page) -> None:
    for thread_id in THREAD_IDS:
        runner.start(
            WF, thread_id[:200], {"over": [{"n": 1, "does": "echo", "text": PAYLOAD}, {"n": 2, "does": "fail"}]}
        )
    runner.run()
    for thread_id in THREAD_IDS:
        page.goto(at(flower, thread_id[:200], workflow=WF))
        assert page.status == 200
        assert page.overflow() <= 0
        assert page.count("#branches tbody tr") == 2


def test_a_case_that_fans_out_again_shows_its_latest_first(flower: Process, runner: Runner, page: Page) -> None:
    items = [{"n": n, "does": "double"} for n in range(30)]
    runner.start(WF, "A", {"over": items, "rounds": 7})
    runner.run()
    page.goto(at(flower, "A", workflow=WF))
    assert page.count(".ks-fan") == 5
    assert page.count("#branches tbody tr") == 12, "of the latest one"
    assert "18 more" in page.text("#branches")
    assert page.js("document.querySelector('#branches tbody a').innerText").startswith("A/work#19")
