"""The page in a real browser: what it shows, how it follows, what it withstands.

GOLDEN_UPDATE=1 writes the pictures of the docs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sidecar.app import Application
from sidecar.config import load_bytes
from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import listen
from sidecar.outputs.web.page import STATUS_PAGE
from sidecar.simulator.server import SimulatedVllm
from sidecar.simulator.traffic import Shape, Steady, Traffic
from tests.web import browser, show

PICTURES = Path(__file__).parents[2] / "docs" / "img"

HOSTILE = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>&amp;\u202e"


def run(story: Callable[[Any], Awaitable[None]], folder: Path) -> None:
    browser.program()

    async def whole() -> None:
        async with browser.chromium(folder) as chromium:
            await story(chromium)

    asyncio.run(asyncio.wait_for(whole(), 60))


def demo(seconds: float, model: str = "demo/llama-8b", until: float = 0.0) -> tuple[Any, Any]:
    """A demo that has just played `seconds`, ending now, and the application that shows it."""
    played = show.Show(until or seconds, model=model, begin=time.time() - seconds)
    app = http_app(lambda: played.publication, SelfMetrics())
    for _ in played.play(seconds):
        app[STATUS_PAGE].feed.look()
    return played, app


def picture(name: str, png: bytes) -> None:
    if os.environ.get("GOLDEN_UPDATE"):
        (PICTURES / name).write_bytes(png)
    assert len(png) > 20_000, "an empty page"


def test_the_demo_in_light_dark_and_on_a_phone(tmp_path: Path) -> None:
    _, app = demo(640, until=1160)

    async def story(chromium: Any) -> None:
        listener = await listen(app, "127.0.0.1:0")
        async with chromium.page(listener.url + "/", height=1400) as page:
            await page.until("document.querySelectorAll('.plot canvas').length === 4")
            answers = await page.text(".answer strong")
            assert "burns" in answers and "full" in answers and "budget" in answers
            assert "95 % below 1 s" in await page.text(".target")
            assert "NVIDIA H100" in await page.text("#gpus")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 1280
            picture("status-page.png", await page.shot())
            inks = "[...document.querySelectorAll('.plot canvas')].map((c) => c.toDataURL().length)"
            light = await page.evaluate(inks)
            await page.scheme("dark")
            await page.until(f"JSON.stringify({inks}) !== '{str(light).replace(' ', '')}'")
            ground = "getComputedStyle(document.body).backgroundColor"
            assert await page.evaluate(ground) == "rgb(15, 20, 32)"
            picture("status-page-dark.png", await page.shot())
            assert all(url.startswith(listener.url) for url in page.requests)
            assert page.errors == []
        async with chromium.page(listener.url + "/", width=360, height=760, phone=True) as page:
            await page.until("document.querySelectorAll('.plot canvas').length === 4")
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360
            await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            await page.until("document.querySelectorAll('[data-keep=signals] tr').length > 30")
            wide = "[...document.querySelectorAll('table')].filter((one) => one.scrollWidth > 340).length"
            assert await page.evaluate(wide) == 0
            picture("status-page-phone.png", await page.shot(whole=False))
            assert page.errors == []
        await listener.close()

    run(story, tmp_path)


def test_it_follows_a_live_target_its_death_and_its_return(tmp_path: Path) -> None:
    async def story(chromium: Any) -> None:
        traffic = Traffic(Steady(5.0), Shape(), 3)
        async with SimulatedVllm(traffic=traffic) as server:
            config = (
                f"listen: 127.0.0.1:0\ninterval: 200ms\ntimeout: 200ms\ntargets: [{{url: '{server.url}'}}]"
            )
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()
            async with chromium.page(app.url + "/") as page:
                await page.until("document.querySelector('.who .badge')?.innerText === 'up'")
                first = await page.text(".facts")
                await page.until(f"document.querySelector('.facts').innerText !== {first!r}")
                await page.evaluate("document.querySelector('.who a').focus()")
                await server.restart(1.5)
                await page.until("document.querySelector('.who .badge').innerText === 'down'")
                assert "connection refused" in await page.text("#problems")
                assert "to mend now" in await page.text("#summary")
                assert await page.evaluate("document.activeElement.innerText") == "local", "focus stays"
                await page.until("document.querySelector('#problems li.bad') === null")
                assert "refused" in await page.evaluate("document.querySelector('#t0-scrapes').textContent")
                assert page.errors == []
                assert app.listener is not None
                await app.close()
                await page.until("document.querySelector('#link').innerText.includes('lost')")

    run(story, tmp_path)


def test_a_hostile_model_name_stays_text(tmp_path: Path) -> None:
    _, app = demo(20, model=HOSTILE.replace("\u202e", ""))

    async def story(chromium: Any) -> None:
        listener = await listen(app, "127.0.0.1:0")
        async with chromium.page(listener.url + "/") as page:
            await page.until("document.querySelector('.target h2')")
            assert "<img src=x onerror" in await page.text(".target h2")
            await page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            await page.until("document.querySelector('[data-keep=signals]').innerText.includes('<script>')")
            assert await page.evaluate("document.querySelectorAll('main img, main script').length") == 0
            assert await page.evaluate("document.title") != "owned"
            blocked = "new Promise((done) => { const s = document.createElement('script'); s.textContent = \
                'document.title = 1'; document.body.append(s); done(document.title); })"
            assert await page.evaluate(blocked) != "1", "the policy lets no inline script run"
        await listener.close()

    run(story, tmp_path)


def test_keyboard_and_screen_reader(tmp_path: Path) -> None:
    _, app = demo(200, until=360)

    async def story(chromium: Any) -> None:
        listener = await listen(app, "127.0.0.1:0")
        async with chromium.page(listener.url + "/") as page:
            await page.until("document.querySelectorAll('.plot canvas').length === 4")
            await page.press("Tab", 9)
            assert await page.evaluate("document.activeElement.innerText") == "Skip to the targets"
            await page.evaluate("document.querySelector('#t0-signals summary').focus()")
            await page.press(" ", 32)
            await page.until("document.querySelector('.tip')")
            await page.evaluate("document.querySelector('.tip').focus()")
            tip = "getComputedStyle(document.querySelector('.tip'), '::after').content"
            assert "native from vllm:" in await page.evaluate(tip)
            tree = (await page.call("Accessibility.getFullAXTree"))["nodes"]
            named = [
                (node.get("role", {}).get("value"), node.get("name", {}).get("value", "")) for node in tree
            ]
            charts = [name for role, name in named if role in ("image", "img") and "last 15 minutes" in name]
            assert len(charts) == 4 and all("Now: " in name for name in charts)
            assert any(role == "heading" and name == "Do users suffer?" for role, name in named)
            assert any(role == "status" for role, _ in named)
            nameless = [
                role for role, name in named if role in ("link", "button", "meter", "region") and not name
            ]
            assert nameless == []
            assert page.errors == []
        await listener.close()

    run(story, tmp_path)


def test_a_hidden_tab_asks_for_nothing(tmp_path: Path) -> None:
    played, app = demo(20)
    feed = app[STATUS_PAGE].feed

    async def story(chromium: Any) -> None:
        listener = await listen(app, "127.0.0.1:0")
        async with chromium.page(listener.url + "/") as page:
            await page.until("document.querySelector('.target h2')")
            assert feed.viewers == 1
            await page.evaluate(
                "Object.defineProperty(document, 'hidden', { get: () => true, configurable: true });"
                "document.dispatchEvent(new Event('visibilitychange'))"
            )
            await page.until("document.querySelector('#link').innerText === 'paused'")
            for _ in range(50):
                if feed.viewers == 0:
                    break
                played.publication = replace(played.publication, serial=played.publication.serial + 1)
                feed.look()
                await asyncio.sleep(0.1)
            assert feed.viewers == 0, "it has hung up, and the next message finds that out"
        await listener.close()

    run(story, tmp_path)


def test_many_targets_begin_closed(tmp_path: Path) -> None:
    played, app = demo(20)
    one = played.publication.snapshots[0]

    async def story(chromium: Any) -> None:
        many = tuple(replace(one, target=f"replica-{place}") for place in range(30))
        played.publication = replace(played.publication, snapshots=many, serial=10**6)
        listener = await listen(app, "127.0.0.1:0")
        async with chromium.page(listener.url + "/") as page:
            await page.until("document.querySelectorAll('.glance article').length === 30")
            assert await page.evaluate("document.querySelectorAll('.plot canvas').length") == 0
            await page.evaluate("document.querySelectorAll('.who a')[7].click()")
            await page.until("document.querySelectorAll('details.target[open] .plot').length === 4")
            assert page.errors == []
        await listener.close()

    run(story, tmp_path)
