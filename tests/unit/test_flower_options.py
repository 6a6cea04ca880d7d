"""Flower gets the options as a user types them, whatever tornado makes of them, and our defaults for the rest."""

import logging

import pytest
from flower.options import options

from keepstep.monitor.flower import DEFAULTS, hush, refuse_unknown, with_defaults
from keepstep.steps.errors import BadSetting


@pytest.mark.parametrize(
    ("given", "handed_on"),
    [
        (["--port", "5599"], ["--port=5599"]),
        (["--port=5599"], ["--port=5599"]),
        (["--basic-auth", "a:b"], ["--basic-auth=a:b"]),
        (["--basic-auth", "a:b=c"], ["--basic-auth=a:b=c"]),
        (["--debug", "--port", "1"], ["--debug", "--port=1"]),
        (["--persistent"], ["--persistent"]),
        ([], []),
    ],
)
def test_an_option_and_its_value_may_be_two_words(given: list[str], handed_on: list[str]) -> None:
    assert with_defaults(given)[len(DEFAULTS) :] == handed_on


@pytest.mark.parametrize("given", [["--address", "0.0.0.0"], ["--address=0.0.0.0"], ["--tasks_columns", "name"]])
def test_what_is_given_wins_over_our_defaults(given: list[str]) -> None:
    name = given[0].partition("=")[0].replace("_", "-")
    named = [option.partition("=")[0].replace("_", "-") for option in with_defaults(given)]
    assert named.count(name) == 1
    assert len(named) == len(DEFAULTS)


@pytest.mark.parametrize("wrong", ["--basic-atuh=a:b", "--prot=1", "-p", "word"])
def test_an_option_that_flower_does_not_have_is_refused(wrong: str) -> None:
    refuse_unknown(with_defaults(["--port", "1", "--read-only", "--basic_auth=a:b"]), options)
    with pytest.raises(BadSetting, match="has no option"):
        refuse_unknown([wrong], options)


def test_the_list_of_celerys_own_tasks_is_kept_back_and_the_address_is_not(caplog: pytest.LogCaptureFixture) -> None:
    command = logging.getLogger("flower.command")
    before = [*command.filters]
    hush()
    try:
        with caplog.at_level(logging.INFO):
            command.info("Registered tasks: \n%s", ["celery.chord"])
            command.info("Visit me at http://%s", "127.0.0.1")
            logging.getLogger("flower.inspector").warning("Inspect method %s failed", "stats")
    finally:
        command.filters = before
        logging.getLogger("flower.inspector").setLevel(logging.NOTSET)
    assert [record.getMessage() for record in caplog.records] == ["Visit me at http://127.0.0.1"]
