"""Flower with the pages about cases, in this process or as one of its own; and a visitor without a browser."""

from __future__ import annotations

import asyncio
import http.cookiejar
import os
import signal
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flower.options import default_options
from flower.urls import settings as flower_settings
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets

from keepstep.config.settings import Settings
from keepstep.dev.ports import free_port
from keepstep.monitor.application import CasesFlower
from keepstep.monitor.flower import flower_app
from tests.support import zygote
from tests.support.eventually import eventually
from tests.support.worker import ROOT


class Here:
    """The application in a thread of this process, which starts in no time. options: Flower's, by name."""

    def __init__(self, settings: Settings, **options: Any):
        self._settings = settings
        self._options = SimpleNamespace(**{**default_options.as_dict(), **options})
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        assert self._started.wait(20)

    def _serve(self) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self.loop = IOLoop.current()
        theirs = {**flower_settings, "cookie_secret": "a secret of this test"}
        self.app = CasesFlower(
            self._settings, self._options, capp=flower_app(self._settings), io_loop=self.loop, **theirs
        )
        sockets = bind_sockets(0, "127.0.0.1")
        HTTPServer(self.app).add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        self.loop.add_callback(self._started.set)
        self.loop.start()

    def stop(self) -> None:
        self.loop.add_callback(self.loop.stop)
        self._thread.join(10)
        self.app.desk.close()


class Process:
    """`keepstep flower`, as it is run. options: as on the command line."""

    def __init__(self, env: Mapping[str, str], log: Path, *options: str):
        self.log, port = log, free_port()
        with log.open("wb") as out:
            whole = {**os.environ, **env}
            self._process = zygote.fork(
                ["flower", "--port", str(port), *options], env=whole, cwd=ROOT, out=out, err=out
            )
        self.url = f"http://127.0.0.1:{port}"
        eventually(self._answers, 20, "Flower to answer")

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        try:
            return Visitor(self.url).get("/healthcheck").status == 200
        except OSError:
            return False

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What Flower answered, redirects followed. url: where that led."""

    status: int
    text: str
    url: str
    headers: Mapping[str, str]


class Visitor:
    """Somebody with cookies. headers: sent with each request, such as a password's."""

    def __init__(self, url: str, **headers: str):
        self.url, self._headers = url, headers
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    def get(self, path: str, **headers: str) -> Answer:
        return self._open(urllib.request.Request(self.url + path, headers={**self._headers, **headers}))

    def post(self, path: str, fields: Mapping[str, str], *, token: str | None = None, **headers: str) -> Answer:
        """Send a form. token: None is the one that a page gives, "" is none at all."""
        given = self.token() if token is None else token
        body = urllib.parse.urlencode({**fields, **({"_xsrf": given} if given else {})}).encode()
        return self._open(urllib.request.Request(self.url + path, body, {**self._headers, **headers}))

    def token(self) -> str:
        """The token that pages put into their forms."""
        self.get("/cases")
        return next((cookie.value or "" for cookie in self._cookies if cookie.name == "_xsrf"), "")

    def _open(self, request: urllib.request.Request) -> Answer:
        try:
            with self._opener.open(request, timeout=30) as answer:
                return _answer(answer)
        except urllib.error.HTTPError as error:
            return _answer(error)


def _answer(answer: Any) -> Answer:
    text = answer.read().decode()
    return Answer(status=answer.status, text=text, url=answer.url, headers=dict(answer.headers))
