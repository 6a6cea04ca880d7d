"""The life of a case from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Cli
from tests.conftest import StartWorker
from tests.support.eventually import eventually


def is_at(cli: Cli, workflow: str, thread_id: str, status: str) -> dict[str, Any] | None:
    case: dict[str, Any] = cli("show", workflow, thread_id, "--json").json
    return case if case["status"] == status else None


def test_a_case_goes_from_start_over_approval_to_its_end(cli: Cli, start_worker: StartWorker) -> None:
    start_worker()
    assert cli("start", "approve", "P-1", "--json").json["new"] is True
    case = eventually(lambda: is_at(cli, "approve", "P-1", "waiting"))
    assert (case["step"], case["waits"][0]["name"]) == ("ask", "approval")
    assert [row["thread_id"] for row in cli("list", "--status", "waiting", "--json").json] == ["P-1"]

    sent = cli("signal", "approve", "P-1", "approval", "--payload", '{"approved": true}', "--actor", "ann", "--json")
    assert sent.json["fate"] == "delivered"
    case = eventually(lambda: is_at(cli, "approve", "P-1", "completed"))
    assert case["state"]["approval"] == {"approved": True, "actor": "ann", "note": None}

    events = cli("history", "approve", "P-1", "--json").json
    checkpoints = [(event["kind"], event["step"]) for event in events if event["kind"] != "sent"]
    assert checkpoints == [
        ("start", "start"),
        ("step", "ask"),
        ("signal", "approval"),
        ("step", "act"),
        ("step", "done"),
    ]


def test_show_tells_how_to_answer_and_the_command_it_names_works(cli: Cli, start_worker: StartWorker) -> None:
    start_worker()
    cli("start", "approve", "P-2")
    eventually(lambda: is_at(cli, "approve", "P-2", "waiting"))
    shown = cli("show", "approve", "P-2").out
    assert "It waits for approval" in shown
    assert """keepstep signal approve P-2 approval --payload '{"approved": true}' --actor YOU""" in shown
    cli("signal", "approve", "P-2", "approval", "--payload", '{"approved": true}', "--actor", "YOU")
    eventually(lambda: is_at(cli, "approve", "P-2", "completed"))


@pytest.mark.slow
def test_a_held_case_says_why_and_goes_on_after_retry(cli: Cli, start_worker: StartWorker) -> None:
    start_worker()
    cli("start", "wrong", "W-1", "--state", '{"value": "raise"}')
    eventually(lambda: is_at(cli, "wrong", "W-1", "held"))
    shown = cli("show", "wrong", "W-1").out
    assert "retries ran out" in shown
    assert "OSError: the API is down" in shown
    assert "keepstep retry wrong W-1" in shown
    assert "OSError: the API is down" in cli("history", "wrong", "W-1").out
    assert cli("retry", "wrong", "W-1", "--json").json["status"] != "held"
    cli("cancel", "wrong", "W-1")
    cli("retry", "wrong", "W-1").refuses(4)


def test_show_of_a_queued_case_says_that_no_worker_is_there(cli: Cli) -> None:
    cli("start", "ten", "Q-1")
    shown = cli("show", "ten", "Q-1").out
    assert "It waits for a worker to take s1 on the queue keepstep. No worker is alive." in " ".join(shown.split())
    assert "keepstep --workflows MODULE worker -Q keepstep" in shown


@pytest.mark.parametrize("how", ["inline", "file", "stdin"])
def test_the_state_comes_inline_from_a_file_or_from_stdin(cli: Cli, tmp_path: Path, how: str) -> None:
    state = json.dumps({"value": "Zoë"})
    (tmp_path / "state.json").write_text(state, encoding="utf-8")
    given = {"inline": state, "file": f"@{tmp_path / 'state.json'}", "stdin": "-"}[how]
    cli("start", "ten", "J-1", "--state", given, stdin=state)
    assert cli("show", "ten", "J-1", "--json").json["state"]["value"] == "Zoë"


def test_starting_twice_returns_the_same_case(cli: Cli) -> None:
    first, second = cli("start", "ten", "T-1", "--json").json, cli("start", "ten", "T-1", "--json").json
    assert (first["new"], second["new"]) == (True, False)
    assert first["id"] == second["id"]


@pytest.mark.slow
def test_list_filters_by_workflow_status_and_step_and_is_limited(cli: Cli) -> None:
    for thread_id in ("L-1", "L-2", "L-3"):
        cli("start", "ten", thread_id)
    cli("start", "approve", "L-1")
    assert len(cli("list", "--json").json) == 4
    assert {row["workflow"] for row in cli("list", "--workflow", "approve", "--json").json} == {"approve"}
    assert len(cli("list", "--step", "s1", "--json").json) == 3
    assert [row["thread_id"] for row in cli("list", "--workflow", "ten", "--limit", "2", "--json").json] == [
        "L-3",
        "L-2",
    ]
    assert cli("list", "--status", "held", "--json").json == []
    assert "L-2" in cli("list").out


def test_global_options_override_the_environment(cli: Cli, database_url: str) -> None:
    options = ("--database-url", database_url, "--workflows", "keepstep.examples.intake")
    started = cli(
        *options, "start", "intake", "A-1", "--state", '{"application": "A-1"}', KEEPSTEP_DATABASE_URL="wrong"
    )
    assert started.code == 0, started.err


def test_output_that_is_piped_has_no_colours(cli: Cli) -> None:
    cli("start", "ten", "N-1")
    assert "\x1b" not in cli("list").out + cli("show", "ten", "N-1").out + cli("history", "ten", "N-1").out
