"""Commands, called in this process: what they refuse in one line, and that what is stored can't act on a terminal."""

from __future__ import annotations

import json
import pwd
from collections.abc import Callable
from typing import Any

import pytest

from keepstep import Client, wait_all, wait_for
from keepstep.checkpoint.database import Database
from keepstep.cli import main
from tests import flows
from tests.support.hand import Hand
from tests.support.several import several
from tests.support.stages import WF, ask, bring

ESCAPE = "pay \x1b[2K\x1b[1A\u009b2K\u202e nobody"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hand(db: Database, monkeypatch: pytest.MonkeyPatch) -> Hand:
    monkeypatch.setattr(flows, "ALL", [*flows.ALL, several])
    return Hand(db, known='{"approve": 1, "several": 1, "ten": 1}')


@pytest.fixture
def run(worker_env: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of a command."""
    for name, value in worker_env.items():
        monkeypatch.setenv(name, value)

    def run(*args: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main.run(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


# ----------------------------------------------------------------------------------------------- one line, no traceback
@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("list", "--older-than", "999999999999d"), 2, "too long"),
        (("retry", "--workflow", WF, "--older-than", "99999999999999d", "--dry-run"), 2, "too long"),
        (("list", "--workflow", "\udcff"), 2, "workflow"),
        (("list", "--step", "\udcff"), 2, "step"),
        (("list", "--error", "\udcff"), 2, "error"),
        (("inbox", "--workflow", "\udcff"), 2, "workflow"),
        (("show", "\udcff", "A"), 3, "no such case"),
        (("signal", "\udcff", "A", "x"), 3, "no such case"),
        (("show", WF, "\udcff"), 2, "thread id"),
        (("signal", WF, "A", "bad name"), 2, "signal name"),
        (("signal", WF, "A", "x", "--actor", " "), 2, "actor is empty"),
        (("signal", WF, "A", "x", "--payload", "[" * 100_000), 2, "nested too deeply"),
        (("start", WF, "A", "--state", "[" * 100_000), 2, "nested too deeply"),
    ],
    ids=lambda value: " ".join(value)[:40].encode("ascii", "replace").decode() if isinstance(value, tuple) else None,
)
def test_what_is_wrong_is_one_line(run: Run, args: tuple[str, ...], code: int, says: str) -> None:
    got, out, err = run(*args)
    assert (got, out, err.count("\n")) == (code, "", 1), err
    assert says in err


def test_a_payload_that_is_as_deep_as_can_be_read_is_stored_or_refused(run: Run, client: Client, hand: Hand) -> None:
    bring(hand, client, "queued")
    for depth in (100, 300, 500, 900):
        code, _, err = run("signal", WF, "A", f"d{depth}", "--payload", "[" * depth + "]" * depth)
        assert code in (0, 2), err
        code, _, err = run("signal", WF, "A", f"d{depth}", "--payload", "[" * depth + "]" * depth)
        assert code in (0, 2), err


def test_an_account_without_a_name_is_asked_who_decides(
    run: Run, client: Client, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring(hand, client, "waiting")
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(_: int) -> Any:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    code, _, err = run("approve", WF, "A")
    assert (code, "--actor" in err) == (2, True)
    assert run("approve", WF, "A", "--actor", "ann")[0] == 0
    assert run("cancel", WF, "A")[0] == 0


@pytest.mark.parametrize("beside", [("--dry-run",), ("--yes",), ("--status", "held"), ("--workflow", WF)], ids=" ".join)
def test_a_retry_under_a_new_key_takes_no_option_for_many(
    run: Run, client: Client, hand: Hand, beside: tuple[str, ...]
) -> None:
    bring(hand, client, "held")
    code, _, err = run("retry", WF, "A", "--new-key", "--repeat-effects", *beside)
    assert (code, "for one case" in err) == (2, True)
    assert client.get(WF, "A").status == "held"


# ------------------------------------------------------------------------------------------- what became of a signal
def test_what_became_of_a_signal_is_what_became_of_it(run: Run, client: Client, hand: Hand) -> None:
    bring(hand, client, "waiting")
    client.pause(WF, "A")
    assert "goes on when it is resumed" in run("approve", WF, "A", "--actor", "ann")[1]
    hand.step(hand.start("B", several), 0, wait_all(wait_for("a", into="a"), wait_for("b", into="b")))
    assert run("signal", "several", "B", "a")[1] == "several/B a delivered. It waits for b\n"
    assert run("signal", "several", "B", "b")[1] == "several/B b delivered: the case goes on\n"


def test_a_message_is_sent_to_a_stream(run: Run, client: Client, hand: Hand) -> None:
    hand.start("A", several)
    assert run("send", "several", "A", "chat", "--payload", '"hello"', "--dedupe-key", "m1")[0] == 0
    assert "repeated" in run("send", "several", "A", "chat", "--payload", '"hello"', "--dedupe-key", "m1")[1]


# ------------------------------------------------------------------------------------------------- a terminal is safe
def test_what_is_stored_cannot_act_on_a_terminal(run: Run, client: Client, hand: Hand) -> None:
    thread_id = f"A{ESCAPE}"
    ring = hand.start(thread_id, flows.approve, {"value": ESCAPE})
    hand.step(ring, 0, ask(prompt={"text": ESCAPE}, update={"value": [ESCAPE]}))
    client.signal(WF, thread_id, "other", {"text": ESCAPE}, actor=ESCAPE)
    client.pause(WF, thread_id, actor=ESCAPE, reason=ESCAPE)
    for command in (
        ("list",),
        ("inbox",),
        ("show", WF, thread_id),
        ("show", WF, thread_id, "--full"),
        ("why", WF, thread_id),
        ("history", WF, thread_id),
        ("diff", WF, thread_id, "0", "1"),
        ("signal", WF, thread_id, "more"),
        ("pause", WF, thread_id),
        ("resume", WF, thread_id),
        ("cancel", "--workflow", WF, "--yes"),
    ):
        _, out, err = run(*command)
        acting = {character for character in out + err if not character.isprintable() and character != "\n"}
        assert not acting, (command, acting)
        assert "nobody" in out + err


def test_json_keeps_what_is_stored_and_is_safe_too(run: Run, client: Client, hand: Hand) -> None:
    hand.start("A", flows.approve, {"value": ESCAPE})
    out = run("show", WF, "A", "--json")[1]
    assert json.loads(out)["state"]["value"] == ESCAPE
    assert all(character.isprintable() or character == "\n" for character in out)
