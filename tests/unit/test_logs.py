"""Every line that a step logs, by whichever logger, says of which case; as text, and as JSON."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest

from keepstep.config.logs import FORMAT, AboutCase, JsonLines, about_case, case_logger

FIELDS = {"workflow": "intake", "thread_id": "APP-1", "step": "pull", "seq": 3, "attempt": 2}


@pytest.fixture(params=["text", "json"])
def lines(request: pytest.FixtureRequest) -> Iterator[tuple[str, io.StringIO]]:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.addFilter(AboutCase())
    handler.setFormatter(JsonLines() if request.param == "json" else logging.Formatter(FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    yield request.param, out
    root.removeHandler(handler)


def test_a_users_own_logger_says_of_which_case_it_speaks(lines: tuple[str, io.StringIO]) -> None:
    kind, out = lines
    with about_case(**FIELDS):
        logging.getLogger("theirs").warning("a line with %s", "words\nin two lines")
    logging.getLogger("theirs").warning("outside")
    if kind == "text":
        assert "[intake/APP-1 pull#3] a line with words" in out.getvalue()
        assert "WARNING theirs outside" in out.getvalue()
        return
    inside, outside = [json.loads(line) for line in out.getvalue().splitlines()]
    assert inside | FIELDS == inside
    assert inside["message"] == "a line with words\nin two lines"
    assert "thread_id" not in outside


def test_what_the_step_is_given_says_it_once(lines: tuple[str, io.StringIO]) -> None:
    kind, out = lines
    with about_case(**FIELDS):
        case_logger("intake", "APP-1", "pull", 3).warning("hello", extra={"attempt": 5})
    if kind == "text":
        assert out.getvalue().count("intake/APP-1") == 1
        return
    [line] = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (line["thread_id"], line["seq"], line["attempt"]) == ("APP-1", 3, 5)


def test_an_error_is_one_line_of_json(lines: tuple[str, io.StringIO]) -> None:
    kind, out = lines
    try:
        raise ValueError("not\nthis")
    except ValueError:
        logging.getLogger("theirs").exception("it failed")
    if kind == "json":
        [line] = [json.loads(line) for line in out.getvalue().splitlines()]
        assert "ValueError: not" in line["error"]


def test_coroutines_that_run_at_once_keep_their_cases_apart(lines: tuple[str, io.StringIO]) -> None:
    kind, out = lines

    async def speak(name: str) -> None:
        with about_case(**{**FIELDS, "thread_id": name}):
            for _ in range(3):
                await asyncio.sleep(0)
                logging.getLogger("theirs").warning("from %s", name)

    async def all_of_them() -> None:
        await asyncio.gather(*(speak(f"C{number}") for number in range(5)))

    asyncio.run(all_of_them())
    for line in out.getvalue().splitlines():
        if kind == "json":
            read = json.loads(line)
            assert read["message"] == f"from {read['thread_id']}"
        else:
            name = line.rpartition(" ")[2]
            assert f"[intake/{name} pull#3]" in line
