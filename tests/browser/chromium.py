"""A real, headless Chromium, driven by its own protocol over a WebSocket: https://chromedevtools.github.io/devtools-protocol/"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tornado.websocket import websocket_connect

T = TypeVar("T")

BINARIES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SECONDS = 20.0


def binary() -> str | None:
    """Where Chromium is; None where it isn't installed."""
    return next((found for name in BINARIES if (found := shutil.which(name))), None)


class Chromium:
    """The browser's process, and one connection to it."""

    def __init__(self, home: Path):
        self._profile = home / "profile"
        program = binary()
        assert program is not None
        with (home / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    "--headless=new",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--no-first-run",
                    "--hide-scrollbars",
                    "--remote-debugging-port=0",
                    f"--user-data-dir={self._profile}",
                    "about:blank",
                ],
                stdout=log,
                stderr=log,
            )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._number, self._answers, self._pages = 0, dict[int, asyncio.Future[Any]](), dict[str, Page]()
        self._socket = self._run(self._connect(self._address()))

    def page(self) -> Page:
        """A new page in a context of its own: no cookie is shared."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._pages[session] = page = Page(self, session, context)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        return page

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def send(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """One command; its result. Fails with what the browser says."""
        answer = self._run(self._ask(method, session, params))
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _address(self) -> str:
        file, end = self._profile / "DevToolsActivePort", time.monotonic() + 30
        while not file.exists() or len(file.read_text().splitlines()) < 2:
            assert self._process.poll() is None, "Chromium has ended"
            assert time.monotonic() < end, "Chromium doesn't listen"
            time.sleep(0.05)
        port, path = file.read_text().splitlines()
        return f"ws://127.0.0.1:{port}{path}"

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(SECONDS + 10)

    async def _connect(self, address: str) -> Any:
        socket = await websocket_connect(address, max_message_size=100 * 2**20)
        self._reading = asyncio.get_running_loop().create_task(self._read(socket))
        return socket

    async def _read(self, socket: Any) -> None:
        while (message := await socket.read_message()) is not None:
            told = json.loads(message)
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif (page := self._pages.get(told.get("sessionId", ""))) is not None:
                page.hear(told["method"], told["params"])

    async def _ask(self, method: str, session: str | None, params: dict[str, Any]) -> Any:
        self._number += 1
        number, future = self._number, asyncio.get_running_loop().create_future()
        self._answers[number] = future
        command = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        await self._socket.write_message(json.dumps(command))
        return await asyncio.wait_for(future, SECONDS)


class Page:
    """A tab. complaints: errors of scripts, of the console, of the page's policy. dialogs: what alert() said."""

    def __init__(self, browser: Chromium, session: str, context: str):
        self._browser, self._session, self._context = browser, session, context
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.status: int | None = None
        self._loads = 0

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **params)

    def hear(self, method: str, params: dict[str, Any]) -> None:
        """An event of the browser."""
        if method == "Page.loadEventFired":
            self._loads += 1
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"])[:500])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
        elif method == "Network.responseReceived" and params["type"] == "Document":
            self.status = params["response"]["status"]

    def goto(self, url: str) -> None:
        """Load a page, and wait until it has loaded."""
        before = self._loads
        self.send("Page.navigate", url=url)
        self.wait(lambda: self._loads > before, f"{url} to load")

    def wait(self, predicate: Callable[[], T], what: str = "it", timeout: float = SECONDS) -> T:
        end = time.monotonic() + timeout
        while not (value := predicate()):
            assert time.monotonic() < end, f"waited in vain for {what}: {self.text()[:800]}"
            time.sleep(0.05)
        return value

    def js(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def text(self, selector: str = "body") -> str:
        return str(self.js(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''"))

    def count(self, selector: str) -> int:
        return int(self.js(f"document.querySelectorAll({json.dumps(selector)}).length"))

    def fill(self, selector: str, value: str) -> None:
        """Type into a field, as a person does."""
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.js(f"document.querySelector({json.dumps(selector)}).select()")
        self.send("Input.insertText", text=value)

    def click(self, selector: str, *, loads: bool = True) -> None:
        """Click with the mouse where the element is; wait for the page that this leads to."""
        self.js(
            f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center', behavior: 'instant'}})"
        )
        place = self.js(
            f"(r => [r.x + r.width / 2, r.y + r.height / 2])"
            f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
        )
        before = self._loads
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
        if loads:
            self.wait(lambda: self._loads > before, f"the page behind {selector}")

    def window(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def without_script(self) -> None:
        self.send("Emulation.setScriptExecutionDisabled", value=True)

    def screenshot(self, file: Path) -> Path:
        """The whole page, also what lies below the window."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        taken = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(taken["data"]))
        return file

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(self.js("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def close(self) -> None:
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)


__all__ = ["Chromium", "Page", "binary"]
