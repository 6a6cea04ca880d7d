"""An operator's verbs from the command line."""

from __future__ import annotations

import pytest

from keepstep import Client
from keepstep.checkpoint.database import Database
from tests.acceptance.cli import Cli
from tests.support.hand import Hand
from tests.support.stages import WF, bring

pytestmark = pytest.mark.slow  # a second for each command, most of it the start of Python


@pytest.fixture
def hand(db: Database) -> Hand:
    return Hand(db)


def test_one_case_is_paused_resumed_skipped_rewound_and_cancelled(cli: Cli, client: Client, hand: Hand) -> None:
    bring(hand, client, "held")
    assert cli("pause", WF, "A", "--reason", "wait").out == "approve/A is held at ask, paused, checkpoint 0\n"
    assert "it is held, and paused" in cli("pause", WF, "A").refuses(4)
    assert cli("resume", WF, "A", "--json").json["paused"] is False
    skipped = cli("skip", WF, "A", "--update", '{"value": 7}', "--actor", "ann", "--json").json
    assert (skipped["status"], skipped["step"], skipped["seq"]) == ("queued", "act", 1)
    refused = cli("rewind", WF, "A", "--to", "0").refuses(4)
    assert "ask#0" in refused
    assert "--repeat-effects" in refused
    assert "from checkpoint 0 to 1" in cli("rewind", WF, "A", "--to", "0", "--seen", "0").refuses(4)
    assert cli("rewind", WF, "A", "--to", "0", "--repeat-effects", "--json").json["effects"] == ["ask#0"]
    assert cli("cancel", WF, "A", "--reason", "withdrawn").out == "approve/A is cancelled, checkpoint 2\n"
    history = cli("history", WF, "A").out
    assert "by ann" in history
    assert "withdrawn" in history


def test_a_failed_case_is_retried_forked_and_restarted(cli: Cli, client: Client, hand: Hand) -> None:
    bring(hand, client, "failed")
    assert cli("retry", WF, "A", "--json").json["status"] == "queued"
    assert cli("fork", WF, "A", "--at", "0", "--as", "B", "--repeat-effects", "--json").json["thread_id"] == "B"
    assert cli("restart", WF, "A", "--repeat-effects", "--json").json["seq"] == 1
    assert cli("fork", WF, "A", "--at", "0", "--as", "B", "--repeat-effects").refuses(4)


def test_many_cases_by_filter_are_looked_at_first_and_then_moved(cli: Cli, client: Client, hand: Hand) -> None:
    for number in range(3):
        bring(hand, client, "held", f"A{number}")
    assert len(cli("retry", "--workflow", WF, "--dry-run", "--json").json) == 3
    assert "--yes" in cli("retry", "--workflow", WF).refuses(2)
    done = cli("retry", "--workflow", WF, "--status", "held", "--yes")
    assert (done.code, "approve/A1: retry, was held at ask" in done.out, "3 cases moved" in done.err) == (0, True, True)
    assert "at least one filter" in cli("cancel", "--yes").refuses(2)
    assert "never moves" in cli("retry", "--status", "waiting").refuses(2)
    cli("cancel", WF).refuses(2)
    assert client.counts(WF) == {"queued": 3}
