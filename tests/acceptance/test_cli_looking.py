"""Starting on terms, and looking, from the command line."""

from __future__ import annotations

import pytest

from tests.acceptance.cli import Cli
from tests.conftest import StartWorker
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow  # a second for each command, most of it the start of Python


def test_tags_given_at_the_start_find_the_case_in_the_list(cli: Cli) -> None:
    cli("start", "ten", "A", "--tag", "tenant=acme", "--tag", "team=a=b")
    cli("start", "ten", "B", "--tag", "tenant=other")
    found = cli("list", "--tag", "tenant=acme", "--tag", "team=a=b", "--json").json
    assert [(case["thread_id"], case["tags"]) for case in found] == [("A", {"tenant": "acme", "team": "a=b"})]
    assert "tenant=acme" in cli("show", "ten", "A").out
    cli("list", "--tag", "tenant").refuses(2)


def test_pages_are_walked_with_the_cursor_that_each_names(cli: Cli) -> None:
    for n in range(3):
        cli("start", "ten", f"A{n}")
    first = cli("list", "--limit", "2")
    assert "A2" in first.out
    assert "A0" not in first.out
    cursor = first.err.split("--cursor ")[1].strip()
    second = cli("list", "--limit", "2", "--cursor", cursor, "--json")
    assert [case["thread_id"] for case in second.json] == ["A0"]
    assert second.err == "", "the last page names no cursor"
    cli("list", "--cursor", "nonsense").refuses(2)


def test_a_delayed_pinned_urgent_case_is_shown_as_that(cli: Cli) -> None:
    cli("start", "ten", "A", "--delay", "2h", "--priority", "9", "--queue", "slow")
    shown = cli("show", "ten", "A", "--json").json
    assert (shown["status"], shown["priority"], shown["queue"]) == ("sleeping", 9, "slow")
    assert "It sleeps until " in shown["why"]
    assert "Then s1 runs." in cli("why", "ten", "A").out
    cli("start", "ten", "B", "--delay", "soon").refuses(2)
    cli("start", "ten", "A", "--if-exists", "raise").refuses(4)
    cli("start", "ten", "A", "--if-exists", "restart").refuses(4)


def test_why_says_how_to_move_a_case_and_diff_what_changed(cli: Cli, start_worker: StartWorker) -> None:
    start_worker()
    cli("start", "approve", "P")
    eventually(lambda: cli("show", "approve", "P", "--json").json["status"] == "waiting")
    told = cli("why", "approve", "P").out
    assert "It waits for approval." in told
    assert "keepstep signal approve P approval" in told
    assert cli("why", "approve", "P", "--json").json["sentence"] == "It waits for approval."
    changed = cli("diff", "approve", "P", "0", "1")
    assert changed.out == '+ /log/-  "ask"\n'
    assert cli("diff", "approve", "P", "0", "1", "--json").json == [{"op": "add", "path": "/log/-", "value": "ask"}]
    cli("diff", "approve", "P", "0", "9").refuses(3)
    cli("why", "approve", "nobody").refuses(3)


def test_list_takes_an_age(cli: Cli) -> None:
    cli("start", "ten", "A")
    assert cli("list", "--older-than", "1h", "--json").json == []
    eventually(lambda: cli("list", "--older-than", "0.1s", "--json").json)


def test_list_finds_the_error(cli: Cli, start_worker: StartWorker) -> None:
    start_worker()
    cli("start", "wrong", "W", "--state", '{"value": "raise"}')
    eventually(lambda: cli("list", "--status", "held", "--error", "api is down", "--json").json)
    assert cli("list", "--error", "something else", "--json").json == []
