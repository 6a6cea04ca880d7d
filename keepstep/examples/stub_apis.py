"""The outside world of the examples: every API that they call, in one small threaded HTTP server.

Each POST needs an Idempotency-Key. The first request under a key does the effect; a repeat gets the stored answer.
`GET /calls` tells what was asked: all calls, and per key its raw count and effects. `POST /admin/delay` sets how
slow the registry is. Run it beside a worker with `python -m keepstep.examples.stub_apis`, or in a test:

    with StubApis(slow_seconds=5) as stub:
        os.environ["KEEPSTEP_STUB_URL"] = stub.url
        ...
        assert all(key["effects"] == 1 for key in stub.calls()["keys"].values())
"""

import argparse
import json
import math
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from keepstep.examples.stub_answers import SLOW_ENDPOINT, Refusal, answer
from keepstep.examples.stub_ledger import Answer, Interrupted, Ledger, Request


class World:
    """What all requests share: the ledger of keys, the delay of the slow endpoint, and whether it is over."""

    def __init__(self, slow_seconds: float) -> None:
        self.ledger = Ledger()
        self.slow_seconds = _seconds(slow_seconds)
        self.stopping = threading.Event()

    def serve(self, request: Request) -> Answer:
        """Answer one keyed request; only the slow endpoint takes its time, and only under a new key."""
        body = answer(request.endpoint, request.body)

        def effect() -> Answer:
            if request.endpoint == SLOW_ENDPOINT and self.stopping.wait(self.slow_seconds):
                raise Interrupted
            return Answer(status=200, body=body)

        return self.ledger.perform(request, effect)


class Server(ThreadingHTTPServer):
    """An HTTP server whose clients may vanish in the middle of a call."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, world: World) -> None:
        self.world = world
        super().__init__((host, port), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep silent about a killed client: that is what the examples are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Translate HTTP to a `Request` and an `Answer` back to HTTP."""

    server: Server
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        if self.path == "/calls":
            self._reply(Answer(status=200, body=self.server.world.ledger.report()))
        else:
            self._reply(Answer(status=404, body={"error": f"there is no page {self.path}"}))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        raw = self.rfile.read(int(length)) if length.isdecimal() else b""
        if length.isdecimal() and len(raw) < int(length):
            return  # The client went away before it had said all: nothing was asked.
        try:
            self._reply(self._serve(_json_object(raw)))
        except Refusal as refusal:
            self._reply(Answer(status=refusal.status, body={"error": refusal.reason}))

    def _serve(self, body: dict[str, Any]) -> Answer:
        if self.path == "/admin/delay":
            try:
                self.server.world.slow_seconds = _seconds(body.get("seconds"))
            except ValueError as error:
                raise Refusal(400, str(error)) from error
            return Answer(status=200, body={"seconds": self.server.world.slow_seconds})
        key = self.headers.get("Idempotency-Key", "").strip()
        if not key:
            raise Refusal(400, "the Idempotency-Key header is missing")
        return self.server.world.serve(Request(key=key, endpoint=self.path, body=body))

    def _reply(self, reply: Answer) -> None:
        payload = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: `GET /calls` is the log."""


class StubApis:
    """The server as an object: listening from construction, serving between `start` and `stop`."""

    def __init__(self, *, slow_seconds: float = 0.0, port: int = 0, host: str = "127.0.0.1") -> None:
        self._host, self._world = host, World(slow_seconds)
        self._server = Server(host, port, self._world)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="stub-apis", daemon=True)

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://{self._host}:{self._server.server_address[1]}"

    def start(self) -> Self:
        """Serve in a thread of this process."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop serving; slow calls in progress are cut short and take no effect."""
        self._world.stopping.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def calls(self) -> dict[str, Any]:
        """Return what `GET /calls` returns: `calls` in order of arrival, and `keys` with `raw` and `effects` each."""
        return self._world.ledger.report()

    def set_delay(self, seconds: float) -> None:
        """Set how long the slow endpoint takes from the next call on."""
        self._world.slow_seconds = _seconds(seconds)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.stop()


def _seconds(value: Any) -> float:
    """Return `value` as a delay; raise `ValueError` unless it is a finite number and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"a delay is a finite number of seconds from 0, not {value!r}")
    return float(value)


def _json_object(raw: bytes) -> dict[str, Any]:
    try:
        body = json.loads(raw or b"{}")
    except ValueError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Refusal(400, "the body must be a JSON object")
    return body


def main() -> None:
    """Serve until interrupted or terminated; the first line printed is the URL."""
    parser = argparse.ArgumentParser(
        prog="python -m keepstep.examples.stub_apis", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--host", default="127.0.0.1", help="127.0.0.1 is this machine only (the default)")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port (the default)")
    parser.add_argument("--slow", type=float, default=0.0, metavar="SECONDS", help="how long the registry takes")
    options = parser.parse_args()
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with StubApis(slow_seconds=options.slow, port=options.port, host=options.host) as stub:
        print(stub.url, flush=True)
        over.wait()


if __name__ == "__main__":
    main()
