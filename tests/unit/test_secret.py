"""Where a model's secrets are, and what is left of values and texts without them."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, SecretStr

from keepstep import Secret, Workflow
from keepstep.config.logs import case_logger
from keepstep.steps.secret import CUT, Cover, hide, hide_operations, secrets_of


class Account(BaseModel):
    """Nested, with itself inside."""

    iban: Annotated[str, Secret]
    label: str = ""
    sub: list[Account] = []


class State(BaseModel):
    """Secrets at every depth."""

    token: Annotated[str | None, Secret] = None
    key: SecretStr | None = None
    accounts: dict[str, list[Account]] = {}
    pairs: list[Annotated[str, Secret()]] = []
    open: str = ""


SECRETS = secrets_of(State)


def test_the_secrets_of_a_model_are_found_at_every_depth() -> None:
    assert set(SECRETS) == {"/token", "/key", "/accounts/*/*/iban", "/accounts/*/*/sub/*", "/pairs/*"}
    assert Workflow("flow", state=State).secrets == SECRETS
    assert secrets_of(type("Plain", (BaseModel,), {"__annotations__": {"n": int}})) == ()


def test_a_state_is_shown_without_them_and_is_not_changed_by_that() -> None:
    state: dict[str, Any] = {
        "token": "t0ken",
        "key": None,
        "accounts": {"a/b": [{"iban": "DE1", "label": "x", "sub": [{"iban": "DE2"}]}]},
        "pairs": ["p", "q"],
        "open": "yes",
    }
    shown = {
        "token": "***",
        "key": None,
        "accounts": {"a/b": [{"iban": "***", "label": "x", "sub": ["***"]}]},
        "pairs": ["***", "***"],
        "open": "yes",
    }
    assert hide(state, SECRETS) == shown
    assert state["token"] == "t0ken"
    assert hide(state, ()) is state


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("/token", "t", "***"),
        ("/open", "t", "t"),
        ("/accounts/a~1b/0/iban", "DE1", "***"),
        ("/accounts/a~1b/-", {"iban": "DE1", "label": "x"}, {"iban": "***", "label": "x"}),
        ("/accounts", {"k": [{"iban": "DE1"}]}, {"k": [{"iban": "***"}]}),
        ("/accounts/k/0/sub/0/iban", "DE1", "***"),
        ("", {"token": "t", "open": "o"}, {"token": "***", "open": "o"}),
    ],
)
def test_an_operations_value_is_hidden_by_where_it_goes(path: str, value: Any, shown: Any) -> None:
    operations = [{"op": "replace", "path": path, "value": value}, {"op": "remove", "path": "/token"}]
    assert hide_operations(operations, SECRETS)[0]["value"] == shown


def test_texts_are_shown_without_the_values_however_these_are_written() -> None:
    cover = Cover.of(
        SECRETS, {"token": 'a"b\nc', "pairs": ["4711", "7"], "accounts": {"x": [{"iban": "DE99", "sub": []}]}}
    )
    assert cover.text("""'a"b\\nc' and a\\"b\\nc: 4711x DE99, 7 of 17""") == "'***' and ***: ***x ***, *** of 17"
    assert cover.json({"DE99": ["it is 7", 7, None]}) == {"***": ["it is ***", 7, None]}


def test_what_was_cut_off_in_the_middle_of_a_value_is_hidden_too() -> None:
    cover = Cover.of(("/token",), {"token": "abcdefghij"})
    assert cover.text("x" * CUT + "abcdefg").endswith("x***")
    assert cover.text("defghij" + "x" * CUT).startswith("***x")
    assert cover.text("it ends with abcdefg") == "it ends with abcdefg", "nobody has cut it off"


def test_a_cover_of_nothing_gives_back_what_it_gets() -> None:
    said = {"message": "as it is"}
    assert Cover.of((), {"token": "t"}).json(said) is said
    assert Cover.of(("/token",), {"token": None}).text("None") == "None"


def test_a_model_as_the_step_left_it_is_looked_into() -> None:
    left = State(token="learnt", key=SecretStr("hush-hush"), accounts={"a": [Account(iban="DE7777")]})
    assert Cover.of(SECRETS, left).text("learnt hush-hush DE7777") == "*** *** ***"


def test_a_steps_own_log_lines_and_tracebacks_hide_them(caplog: pytest.LogCaptureFixture) -> None:
    log = case_logger("w", "T", "s", 3, lambda: Cover.of(("/token",), {"token": "geheim"}))
    with caplog.at_level(logging.INFO, "keepstep"):
        try:
            raise ValueError("geheim was refused")
        except ValueError as error:
            log.warning("%s: %s", "oops", error, exc_info=error)
            log.exception("and again %s", "geheim")
    assert "geheim" not in caplog.text
    assert caplog.text.count("ValueError: *** was refused") == 2
    assert caplog.records[0].__dict__["thread_id"] == "T"
    assert caplog.records[0].filename == "test_secret.py"
