"""What a step is told about its call: keys, digests of arguments, costs. No database: nothing is recorded here."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from pydantic import BaseModel, RootModel

from keepstep.steps.call import MAX_DETAIL_BYTES, Call
from keepstep.steps.errors import BadState
from keepstep.steps.keys import arguments_that_differ, digest_of, once_key, same_arguments

HUGE = pytest.param(10**5000, id="huge")
RUN = UUID("11111111-2222-4333-8444-555555555555")


class Tags(BaseModel):
    names: set[str]
    paid: Decimal = Decimal("1.10")


class Root(RootModel[set[str]]):
    pass


@dataclass
class Point:
    x: frozenset[str]


def a_call(**options: Any) -> Call:
    given: dict[str, Any] = {
        "workflow": "payments",
        "thread_id": "P-1",
        "step": "pay",
        "seq": 3,
        "attempt": 1,
        "deadline": datetime(2030, 1, 1, tzinfo=UTC),
        "log": logging.LoggerAdapter(logging.getLogger("test"), {}),
        "_run": RUN,
    }
    return Call(**{**given, **options})


# -------------------------------------------------------------------------------------------------------------- keys
def test_each_recorded_call_has_a_key_of_its_own_which_stays() -> None:
    call = a_call()
    assert call.key_of("charge") == str(uuid5(RUN, "3:pay:charge")) == str(once_key(RUN, 3, "pay", "charge"))
    assert len({call.key, call.key_of("charge"), call.key_of("mail")}) == 3
    assert a_call(seq=4).key_of("charge") != call.key_of("charge")


@pytest.mark.parametrize("read", [lambda call: call.key, lambda call: call.headers, lambda call: call.key_of("x")])
def test_reading_a_key_is_remembered(read: Any) -> None:
    call = a_call()
    assert not call.key_read
    read(call)
    assert call.key_read


@pytest.mark.parametrize("name", ["", "  ", "x" * 256, "a\0b", "\ud800", None, 7])
def test_a_name_that_cannot_be_stored_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="the name of a recorded call"):
        a_call().once(name, lambda: 1)
    with pytest.raises(ValueError, match="the name of a recorded call"):
        a_call().key_of(name)


def test_a_step_that_is_not_transactional_has_no_connection() -> None:
    with pytest.raises(RuntimeError, match="transactional=True"):
        _ = a_call().connection


# ----------------------------------------------------------------------------------------------------------- digests
def digest(*args: Any, **kwargs: Any) -> str:
    return digest_of("charge", args, kwargs)


def test_the_same_arguments_have_the_same_digest() -> None:
    assert digest(1, "a", x=[1, {"b": None}], y=2.5) == digest(1, "a", y=2.5, x=(1, {"b": None}))
    assert digest(Tags(names={"a"})) == digest(Tags(names={"a"}))


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        (((1, 2), {}), ((2, 1), {}), ["0", "1"]),
        (((1,), {}), ((1, 2), {}), ["1"]),
        (((1,), {}), ((), {"x": 1}), ["0", "x"]),
        (((), {"x": 1, "y": 2}), ((), {"x": 1, "y": 3}), ["y"]),
        (((1,), {}), ((True,), {}), ["0"]),
        (((1,), {}), (("1",), {}), ["0"]),
        ((([],), {}), (({},), {}), ["0"]),
        (((), {}), ((None,), {}), ["0"]),
    ],
)
def test_other_arguments_have_another_digest_and_are_named(one: Any, other: Any, differing: list[str]) -> None:
    before, now = digest_of("charge", *one), digest_of("charge", *other)
    assert not same_arguments(before, now)
    assert arguments_that_differ(before, now) == differing


@pytest.mark.parametrize(
    "value",
    [
        Tags(names={"a"}),
        datetime(2030, 1, 1, tzinfo=UTC),
        date(2030, 1, 1),
        Decimal("1.1"),
        RUN,
        b"\xff\x00",
        Path("/tmp"),
        {"a": {1, 2}},
        Point(x=frozenset("ab")),
        {7: "a key that is a number"},
        "\ud800",
    ],
)
def test_values_that_are_no_json_have_a_digest_too(value: Any) -> None:
    assert same_arguments(digest(value), digest(value))
    assert not same_arguments(digest(value), digest(None))


def test_sets_have_the_same_digest_in_every_process() -> None:
    """Their order depends on the process's hash seed."""
    code = (
        "from tests.unit.test_call import *; words = {str(n) for n in range(50)}; "
        "print(digest(words, Tags(names=words), Point(x=frozenset(words)), [{'deep': words}], "
        "Root(words), {frozenset(words), frozenset('ab')}))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


def loop() -> list[Any]:
    endless: list[Any] = []
    endless.append(endless)
    return endless


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "object"),
        (float("nan"), "float"),
        ((n for n in range(3)), "only once"),
        ([{"deep": map(str, [1])}], "only once"),
        (open("/dev/null"), "only once"),  # noqa: SIM115
        (loop(), "list"),
        pytest.param(10**5000, "int", id="huge"),
        (lambda: 1, "function"),
    ],
)
def test_an_argument_that_cannot_be_compared_later_is_refused_by_name(value: Any, why: str) -> None:
    with pytest.raises(BadState, match=rf"argument 1 of the call 'charge'.*{why}") as refused:
        a_call().once("charge", lambda a, b: 1, 0, value)
    assert refused.value.path == "/1"
    with pytest.raises(BadState, match="the argument 'session' of the call 'charge'"):
        a_call().once("charge", lambda session: 1, session=value)


def test_looking_at_arguments_uses_none_of_them_up(tmp_path: Path) -> None:
    numbers = (n for n in range(3))
    with pytest.raises(BadState):
        a_call().once("charge", list, numbers)
    assert list(numbers) == [0, 1, 2]


# ------------------------------------------------------------------------------------------------------------ results
def test_without_a_ledger_a_call_is_made_and_comes_back_as_json_does() -> None:
    assert a_call().once("charge", lambda a, *, b: {"a": (a, b)}, 1, b=None) == {"a": [1, None]}
    assert a_call().once("nothing", lambda: None) is None


def test_arguments_may_be_called_name_and_fn() -> None:
    assert a_call().once("charge", lambda name, fn: [name, fn], name=1, fn=2) == [1, 2]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (object(), "object"),
        (Tags(names=set()), "Tags is no JSON value.*model_dump"),
        (datetime(2030, 1, 1, tzinfo=UTC), "datetime"),
        (Decimal(1), "Decimal"),
        (b"", "bytes"),
        (float("inf"), "inf"),
        ("\ud800", "surrogate"),
        ({1: 2}, "key 1"),
        ((n for n in range(3)), "generator"),
        (open("/dev/null"), "TextIOWrapper"),  # noqa: SIM115
        pytest.param(10**5000, "too long", id="huge"),
    ],
)
def test_a_result_that_is_no_json_is_refused_with_the_name_of_its_call(value: Any, why: str) -> None:
    with pytest.raises(BadState, match=rf"(?s)the result of the call 'charge' can't be stored: .*{why}"):
        a_call().once("charge", lambda: value)
    with pytest.raises(BadState, match=rf"/items/1 can't be JSON: .*{why.split('.*')[0]}") as refused:
        a_call().once("charge", lambda: {"items": [0, value]})
    assert refused.value.path == "/items/1"


def test_a_result_that_contains_itself_is_refused() -> None:
    with pytest.raises(BadState, match=r"the result of the call 'charge'.*contains itself"):
        a_call().once("charge", loop)


def test_a_result_that_is_too_large_is_refused() -> None:
    with pytest.raises(BadState, match=r"of the call 'charge' is 50,000,004 bytes.*KEEPSTEP_MAX_STATE_BYTES"):
        a_call().once("charge", lambda: "x" * 50_000_000)
    assert a_call(_max_bytes=10).once("charge", lambda: "é" * 3) == "ééé"
    with pytest.raises(BadState, match="the most is 10"):
        a_call(_max_bytes=10).once("charge", lambda: "é" * 4)


@pytest.mark.parametrize(
    "error", [OSError("dead"), SystemExit(3), StopIteration(1), KeyboardInterrupt(), asyncio.CancelledError()]
)
def test_what_a_call_raises_passes_through_unchanged(error: BaseException) -> None:
    def fail() -> None:
        raise error

    call = a_call()
    with pytest.raises(type(error)) as raised:
        call.once("charge", fail)
    assert raised.value is error
    assert call.once("charge", lambda: "the name is free again") == "the name is free again"


def test_two_calls_of_one_name_at_the_same_time_are_refused() -> None:
    call = a_call()
    with pytest.raises(RuntimeError, match="is being made already"):
        call.once("charge", lambda: call.once("charge", lambda: 1))
    assert call.once("charge", lambda: call.once("inside", lambda: 1)) == 1


# ------------------------------------------------------------------------------------------------------------- async
@pytest.mark.filterwarnings("error")
def test_a_coroutine_is_refused_by_once_and_awaited_by_once_async() -> None:
    async def charge(amount: int) -> dict[str, int]:
        await asyncio.sleep(0)
        call.cost(usd=amount)
        return {"paid": amount}

    async def step() -> Any:
        with pytest.raises(TypeError, match=r"await call.once_async\('charge', ...\)"):
            call.once("charge", charge, 1)
        with pytest.raises(TypeError, match=r"await call.once_async\('charge', ...\)"):
            call.once("charge", lambda: charge(1))
        with pytest.raises(RuntimeError, match="is being made already"):
            await asyncio.gather(call.once_async("same", charge, 1), call.once_async("same", charge, 1))
        return await asyncio.gather(*(call.once_async(f"charge {n}", charge, n) for n in range(3)))

    call = a_call()
    assert asyncio.run(step()) == [{"paid": 0}, {"paid": 1}, {"paid": 2}]
    assert call.spent == {}


# ------------------------------------------------------------------------------------------------------------- costs
def test_costs_add_up_by_unit() -> None:
    call = a_call()
    call.cost(usd=0.5, tokens=100)
    call.cost(usd=Decimal("0.25"), tokens=20, searches=1)
    call.cost()
    assert call.spent == {"usd": 0.75, "tokens": 120, "searches": 1}
    assert json.dumps(call.spent) == '{"usd": 0.75, "tokens": 120, "searches": 1}'


@pytest.mark.parametrize(
    "value", [-1, -0.5, float("nan"), float("inf"), "1", True, 10**400, HUGE, Decimal("nan"), [1], 1j]
)
def test_a_cost_that_is_no_number_is_refused_by_name_and_nothing_is_added(value: Any) -> None:
    call = a_call()
    with pytest.raises(ValueError, match="the cost 'usd' must be a number, finite and not negative"):
        call.cost(tokens=1, usd=value)
    assert call.spent == {}


def test_a_sum_stays_finite_and_a_name_is_text_that_can_be_stored() -> None:
    call = a_call()
    call.cost(usd=1e308, part=Fraction(1, 2))
    with pytest.raises(ValueError, match="usd"):
        call.cost(usd=1e308)
    with pytest.raises(ValueError, match="named by plain text"):
        call.cost(**{"\ud800": 1})
    assert call.spent == {"usd": 1e308, "part": 0.5}


def test_what_a_failed_call_cost_is_the_step_s() -> None:
    call = a_call()

    def charge() -> None:
        call.cost(usd=2)
        raise OSError("the line went dead")

    with pytest.raises(OSError, match="dead"):
        call.once("charge", charge)
    assert call.spent == {"usd": 2}


# -------------------------------------------------------------------------------------------------------- heartbeats
@pytest.mark.parametrize(
    ("detail", "why"),
    [
        (object(), "the heartbeat's detail can't be stored.*object"),
        (float("nan"), "nan"),
        ("é" * (MAX_DETAIL_BYTES // 2), "65,538 bytes of JSON, the most is 65,536"),
    ],
)
def test_a_detail_that_cannot_be_stored_is_refused(detail: Any, why: str) -> None:
    with pytest.raises(BadState, match=why):
        a_call().heartbeat(detail)


def test_without_a_ledger_a_heartbeat_goes_nowhere() -> None:
    call = a_call(detail={"rows": 7})
    call.heartbeat()
    call.heartbeat({"rows": 8})
    assert call.detail == {"rows": 7}
