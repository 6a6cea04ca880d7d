"""The stub of the outside APIs keeps its word: one effect per key, whatever the clients do."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keepstep.examples import tools
from keepstep.examples.stub_answers import ANSWERS, SLOW_ENDPOINT, Refusal
from keepstep.examples.stub_apis import StubApis

APPLICATION = {"application": "APP-1042"}
EXTRACT = {**APPLICATION, "order": "ORDER-1"}
LONG = 60.0

_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(url: str, body: dict[str, Any] | bytes | None = None, key: str | None = None) -> tuple[int, dict[str, Any]]:
    """POST the body (GET without one) and return status and JSON."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    headers = {"Idempotency-Key": key} if key else {}
    try:
        with _http.open(urllib.request.Request(url, data=data, headers=headers), timeout=30) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def eventually(claim: Callable[[], Any], seconds: float = 10) -> Any:
    """Return the first truthy value of `claim`, or fail."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while time.monotonic() < deadline:
        if value := claim():
            return value
        pause.wait(0.01)
    pytest.fail("it never came true")


def send_and_vanish(url: str, body: dict[str, Any], key: str, *, missing_bytes: int = 0) -> None:
    """Send a request, or all of it but some bytes, and reset the connection without reading."""
    data = json.dumps(body).encode()
    host, port = url.removeprefix("http://").split(":")
    lines = [f"POST {SLOW_ENDPOINT} HTTP/1.1", f"Idempotency-Key: {key}", f"Content-Length: {len(data)}", "", ""]
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.sendall("\r\n".join(lines).encode() + data[: len(data) - missing_bytes])


@pytest.fixture
def stub() -> Iterator[StubApis]:
    with StubApis() as stub:
        yield stub


@pytest.fixture
def process() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The stub as `python -m`, with its URL."""
    command = [sys.executable, "-m", "keepstep.examples.stub_apis", "--port", "0", "--slow", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


def test_concurrent_repeats_of_a_key_have_one_effect_and_one_answer(stub: StubApis) -> None:
    stub.set_delay(0.2)
    with ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda _: ask(stub.url + SLOW_ENDPOINT, EXTRACT, "k-1"), range(24)))
    assert {status for status, _ in answers} == {200}
    assert all(body == answers[0][1] for _, body in answers)
    report = stub.calls()
    assert report["keys"]["k-1"]["raw"] == 24
    assert report["keys"]["k-1"]["effects"] == 1
    assert [call["repeat"] for call in report["calls"]] == [False] + 23 * [True]


def test_a_repeat_gets_the_stored_answer_without_the_delay(stub: StubApis) -> None:
    first = ask(stub.url + SLOW_ENDPOINT, EXTRACT, "k-1")
    stub.set_delay(LONG)
    assert ask(stub.url + SLOW_ENDPOINT, EXTRACT, "k-1") == first


def test_different_keys_have_an_effect_each(stub: StubApis) -> None:
    for number in range(3):
        ask(stub.url + "/records", APPLICATION, f"k-{number}")
    assert [key["effects"] for key in stub.calls()["keys"].values()] == [1, 1, 1]


def test_calls_names_key_endpoint_application_and_time_of_each_call(stub: StubApis) -> None:
    before = time.time()
    ask(stub.url + "/records", APPLICATION, "k-1")
    status, report = ask(stub.url + "/calls")
    assert status == 200
    assert report == stub.calls()
    (call,) = report["calls"]
    assert before <= call.pop("at") <= time.time()
    assert call == {"key": "k-1", "endpoint": "/records", "application": "APP-1042", "repeat": False}
    assert report["keys"] == {"k-1": {"endpoint": "/records", "application": "APP-1042", "raw": 1, "effects": 1}}


@pytest.mark.parametrize("endpoint", sorted(ANSWERS))
def test_every_endpoint_refuses_a_request_without_a_key(stub: StubApis, endpoint: str) -> None:
    status, body = ask(stub.url + endpoint, APPLICATION)
    assert status == 400
    assert "Idempotency-Key" in body["error"]
    assert stub.calls()["calls"] == []


@pytest.mark.parametrize(
    ("endpoint", "body", "status"),
    [
        ("/nowhere", APPLICATION, 404),
        ("/records", {}, 400),
        ("/records", b"[]", 400),
        ("/records", b"{", 400),
        ("/vault/copies", APPLICATION, 400),
        ("/documents/classify", {**APPLICATION, "documents": 1}, 400),
        ("/documents/extract", {**APPLICATION, "section": "shoes"}, 400),
    ],
)
def test_a_malformed_request_is_refused_and_leaves_its_key_free(
    stub: StubApis, endpoint: str, body: dict[str, Any] | bytes, status: int
) -> None:
    assert ask(stub.url + endpoint, body, "k-1")[0] == status
    assert ask(stub.url + "/records", APPLICATION, "k-1")[0] == 200


@pytest.mark.parametrize(("endpoint", "body"), [("/offers", APPLICATION), ("/records", {"application": "APP-2"})])
def test_a_key_used_for_another_request_is_refused_without_effect(
    stub: StubApis, endpoint: str, body: dict[str, Any]
) -> None:
    ask(stub.url + "/records", APPLICATION, "k-1")
    assert ask(stub.url + endpoint, body, "k-1")[0] == 422
    assert stub.calls()["keys"]["k-1"]["effects"] == 1


def test_the_call_of_a_client_that_vanishes_takes_effect_once_and_its_repeat_waits_for_it(stub: StubApis) -> None:
    stub.set_delay(0.3)
    send_and_vanish(stub.url, EXTRACT, "k-1")
    eventually(lambda: stub.calls()["calls"])
    assert ask(stub.url + SLOW_ENDPOINT, EXTRACT, "k-1")[0] == 200
    assert stub.calls()["keys"]["k-1"] == {"endpoint": SLOW_ENDPOINT, "application": "APP-1042", "raw": 2, "effects": 1}


def test_a_request_cut_off_in_its_body_asks_for_nothing(stub: StubApis) -> None:
    send_and_vanish(stub.url, EXTRACT, "k-1", missing_bytes=5)
    assert ask(stub.url + "/records", APPLICATION, "k-2")[0] == 200
    assert [call["key"] for call in stub.calls()["calls"]] == ["k-2"]


def test_the_delay_can_be_set_at_construction_and_over_http() -> None:
    with StubApis(slow_seconds=LONG) as stub:
        assert ask(stub.url + "/identity", APPLICATION, "k-1")[0] == 200
        assert ask(stub.url + "/admin/delay", {"seconds": 0.25}) == (200, {"seconds": 0.25})
        started = time.monotonic()
        assert ask(stub.url + SLOW_ENDPOINT, EXTRACT, "k-2")[0] == 200
        assert time.monotonic() - started >= 0.25


@pytest.mark.parametrize("seconds", [-1, "soon", None, True])
def test_a_delay_that_is_no_duration_is_refused(stub: StubApis, seconds: Any) -> None:
    assert ask(stub.url + "/admin/delay", {"seconds": seconds})[0] == 400
    with pytest.raises(ValueError, match="finite number of seconds"):
        stub.set_delay(seconds)


def test_stopping_cuts_a_slow_call_short_without_effect() -> None:
    with StubApis(slow_seconds=LONG) as stub, ThreadPoolExecutor(1) as pool:
        call = pool.submit(ask, stub.url + SLOW_ENDPOINT, EXTRACT, "k-1")
        eventually(lambda: stub.calls()["calls"])
        stub.stop()
        assert call.result(timeout=10)[0] == 503
        assert stub.calls()["keys"]["k-1"]["effects"] == 0


def test_a_stub_that_never_started_can_be_stopped() -> None:
    StubApis().stop()


def test_the_process_prints_its_url_survives_vanished_clients_in_silence_and_ends_on_sigterm(
    process: tuple[subprocess.Popen[str], str],
) -> None:
    child, url = process
    for number in range(20):
        send_and_vanish(url, EXTRACT, f"gone-{number}", missing_bytes=number % 2)
    assert ask(url + SLOW_ENDPOINT, EXTRACT, "k-1")[0] == 200
    assert eventually(lambda: ask(url + "/calls")[1]["keys"].get("gone-18", {}).get("effects") == 1)
    os.kill(child.pid, signal.SIGTERM)
    out, err = child.communicate(timeout=10)
    assert (out, err, child.returncode) == ("", "", 0)


# ------------------------------------------------------------------------------------ the client that the steps use
@pytest.mark.parametrize(
    ("status", "error"),
    [*((code, tools.Refused) for code in (400, 404, 422)), *((code, tools.Unavailable) for code in (408, 429, 500))],
)
def test_an_answer_that_is_no_success_becomes_an_error_with_the_apis_words(
    stub: StubApis, monkeypatch: pytest.MonkeyPatch, status: int, error: type[Exception]
) -> None:
    def refuse(body: dict[str, Any]) -> dict[str, Any]:
        raise Refusal(status, "not today")

    monkeypatch.setitem(ANSWERS, "/records", refuse)
    monkeypatch.setenv("KEEPSTEP_STUB_URL", stub.url)
    with pytest.raises(error, match=f"POST /records: {status}: not today"):
        tools.post("/records", APPLICATION, headers={"Idempotency-Key": "k-1"})


def test_an_api_that_is_too_slow_or_down_is_unavailable(stub: StubApis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTEP_STUB_URL", stub.url)
    stub.set_delay(LONG)
    with pytest.raises(tools.Unavailable, match="timed out"):
        tools.post(SLOW_ENDPOINT, EXTRACT, headers={"Idempotency-Key": "k-1"}, timeout=0.1)
    stub.stop()
    with pytest.raises(tools.Unavailable, match="POST /records"):
        tools.post("/records", APPLICATION, headers={"Idempotency-Key": "k-2"})


def test_a_missing_url_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KEEPSTEP_STUB_URL", raising=False)
    with pytest.raises(tools.Unavailable, match=r"python -m keepstep\.examples\.stub_apis"):
        tools.post("/records", {}, headers={})
