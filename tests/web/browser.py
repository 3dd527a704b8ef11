"""A headless Chromium for tests, spoken to over its DevTools protocol; ended by its pid.

async with chromium(tmp_path) as browser:
    async with browser.page("http://127.0.0.1:9845/", width=1280) as page:
        await page.until("document.querySelector('.answer')")
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

WITHIN = 20.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars", "--mute-audio"),
    "--remote-debugging-port=0",
)


def program() -> str:
    """Path of the browser; the test is skipped without one."""
    for name in _NAMES:
        if (found := shutil.which(name)) is not None:
            return found
    pytest.skip("no Chromium is installed (apt-get install chromium)")


class Page:
    """One tab. `errors` collects what the console and the page's own code complained of, `requests` every
    address that the page asked for."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.target = target
        self._browser = browser
        self._session = session

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        return await self._browser.call(method, params, self._session)

    async def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited when it is a promise."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def until(self, expression: str, within: float = WITHIN) -> Any:
        """Wait for a JavaScript expression to be true; AssertionError after `within` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while True:
            value = await self.evaluate(
                f"(() => {{ const v = {expression}; return v instanceof Node || v; }})()"
            )
            if value:
                return value
            if loop.time() > deadline:
                text = await self.evaluate("document.body.innerText")
                raise AssertionError(f"not within {within} s: {expression}\nthe page says:\n{text}")
            await asyncio.sleep(0.1)

    async def text(self, selector: str) -> str:
        found: str = await self.evaluate(
            f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText).join('\\n')"
        )
        return found

    async def screen(self, width: int, height: int, *, phone: bool = False) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    async def scheme(self, name: str) -> None:
        """light or dark, as the system would prefer."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code
            )

    async def shot(self, *, whole: bool = True) -> bytes:
        """A PNG of the page, in full or as much as the screen shows."""
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def heard(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description") or details["text"])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(" ".join(str(one.get("value", one)) for one in params["args"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                entry = params["entry"]
                self.errors.append(f"{entry['text']} {entry.get('url', '')}")
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])


class Browser:
    """The DevTools connection; every page is a session on it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    async def call(
        self, method: str, params: dict[str, Any] | None = None, session: str = ""
    ) -> dict[str, Any]:
        number = next(self._ids)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        message = {"id": number, "method": method, "params": params or {}}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        return await asyncio.wait_for(answer, WITHIN)

    async def listen(self) -> None:
        async for message in self._socket:
            heard = json.loads(message.data)
            if "id" in heard:
                answer = self._asked.pop(heard["id"])
                if "error" in heard:
                    answer.set_exception(AssertionError(heard["error"]))
                else:
                    answer.set_result(heard["result"])
            elif (page := self._pages.get(heard.get("sessionId", ""))) is not None:
                page.heard(heard["method"], heard["params"])

    @asynccontextmanager
    async def page(
        self, url: str, *, width: int = 1280, height: int = 900, scheme: str = "light", phone: bool = False
    ) -> AsyncIterator[Page]:
        """A tab at `url`, closed in the end."""
        target = (await self.call("Target.createTarget", {"url": "about:blank"}))["targetId"]
        attached = await self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, attached["sessionId"], target)
        self._pages[attached["sessionId"]] = page
        for domain in ("Page", "Runtime", "Log", "Network"):
            await page.call(f"{domain}.enable")
        await page.screen(width, height, phone=phone)
        await page.scheme(scheme)
        await page.call("Page.navigate", url=url)
        try:
            yield page
        finally:
            await self.call("Target.closeTarget", {"targetId": target})


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """A browser with a profile of its own under `folder`."""
    process = await asyncio.create_subprocess_exec(
        program(),
        *_FLAGS,
        f"--user-data-dir={folder / 'profile'}",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        address = await asyncio.wait_for(_address(process), WITHIN)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=64 * 1024 * 1024) as socket,
        ):
            browser = Browser(socket)
            listening = asyncio.create_task(browser.listen())
            drain = asyncio.create_task(_drain(process))
            yield browser
            listening.cancel()
            drain.cancel()
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(rb"ws://\S+", line):
            return found[0].decode()
    raise AssertionError(f"Chromium ended with {await process.wait()}")


async def _drain(process: asyncio.subprocess.Process) -> None:
    assert process.stderr is not None
    while await process.stderr.read(65_536):
        pass
