"""Who is sent what: encoded once for all, nothing when nobody looks, and an end when the listener closes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from sidecar.outputs.http import http_app
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.outputs.server import listen
from sidecar.outputs.web.feed import MOST_VIEWERS, Feed
from sidecar.outputs.web.page import STATUS_PAGE
from tests.web import show


def events(message: bytes) -> dict[str, Any]:
    """Event name → data."""
    found = {}
    for block in message.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        found[name.removeprefix("event: ")] = json.loads(data.removeprefix("data: "))
    return found


def test_the_state_of_an_overload_says_what_an_operator_needs() -> None:
    demo = show.Show(240)
    feed = Feed(lambda: demo.publication, lambda: demo.time)
    for _ in demo.play(130):
        feed.look()
    state = events(feed.state())["state"]
    (target,) = state["targets"]
    assert (target["runtime"], target["version"], target["health"]) == ("vllm", "0.32.0", "up")
    assert target["users"]["level"] == "bad"
    assert target["cause"]["level"] == "bad"
    assert target["point"]["p95"] > 1.0
    assert {slo["slo"] for slo in target["slos"]} == {"ttft", "itl", "available"}
    assert [gpu["owners"] for gpu in state["gpus"]] == [["chat"], ["chat"]]
    assert state["problems"][0]["severity"] == "bad"
    history = events(feed.history())["history"]["chat"]
    assert len(history["t"]) == 65
    assert max(value for value in history["waiting"] if value is not None) > 20


def test_nothing_is_encoded_when_nobody_looks_and_once_for_all_who_do() -> None:
    async def story() -> None:
        demo = show.Show(60)
        feed = Feed(lambda: demo.publication, lambda: demo.time)
        play = demo.play(60)
        for _ in range(5):
            next(play)
            feed.look()
        assert feed.encoded == 0
        viewers = [feed.messages() for _ in range(10)]
        first = [await anext(viewer) for viewer in viewers]
        assert feed.encoded == 1
        assert set(events(first[0])) == {"history", "state"}
        waiting = [asyncio.ensure_future(anext(viewer)) for viewer in viewers]
        await asyncio.sleep(0)
        next(play)
        feed.look()
        told = await asyncio.gather(*waiting)
        assert feed.encoded == 2
        assert all(message is told[0] for message in told)
        for viewer in viewers:
            await viewer.aclose()
        assert feed.viewers == 0
        next(play)
        feed.look()
        assert feed.encoded == 2

    asyncio.run(story())


def test_a_slow_viewer_gets_the_newest_and_no_backlog() -> None:
    async def story() -> None:
        demo = show.Show(60)
        feed = Feed(lambda: demo.publication, lambda: demo.time)
        play = demo.play(60)
        viewer = feed.messages()
        await anext(viewer)
        waiting = asyncio.ensure_future(anext(viewer))
        await asyncio.sleep(0)
        for _ in range(4):
            next(play)
            feed.look()
        assert events(await waiting)["state"]["time"] == pytest.approx(demo.time, abs=0.01)
        await viewer.aclose()

    asyncio.run(story())


def test_over_the_wire() -> None:
    async def story() -> None:
        demo = show.Show(60)
        app = http_app(lambda: demo.publication, SelfMetrics(), clock=lambda: demo.time)
        listener = await listen(app, "127.0.0.1:0")
        play = demo.play(60)
        next(play)
        app[STATUS_PAGE].feed.look()
        async with aiohttp.ClientSession(listener.url) as session:
            async with session.get("/", headers={"Accept": "text/html,*/*;q=0.8"}) as answer:
                page = await answer.text()
                policy = answer.headers["Content-Security-Policy"]
                tag = answer.headers["ETag"]
                assert answer.content_type == "text/html"
            assert "script-src 'self'" in policy and "unsafe" not in policy
            assert "<script>" not in page and "style=" not in page
            async with session.get("/", headers={"Accept": "text/html", "If-None-Match": tag}) as answer:
                assert answer.status == 304
            async with session.get("/") as answer:
                assert answer.content_type == "text/plain"
            for name, kind in (
                ("page.js", "text/javascript"),
                ("page.css", "text/css"),
                ("icon.svg", "image/svg+xml"),
            ):
                async with session.get(f"/static/{name}") as answer:
                    assert (answer.status, answer.content_type) == (200, kind)
            for name in ("..%2Fpage.py", "%2Fetc%2Fpasswd", "page.py", "nothing.js"):
                async with session.get(f"/static/{name}") as answer:
                    assert answer.status == 404
            viewers = [await session.get("/events") for _ in range(3)]
            for viewer in viewers:
                assert (await viewer.content.readuntil(b"\n")).startswith(b"event: history")
            assert app[STATUS_PAGE].feed.viewers == 3
            await asyncio.wait_for(listener.close(), 4)
            for viewer in viewers:
                await viewer.content.read()  # ended, not cut

    asyncio.run(asyncio.wait_for(story(), 20))


def test_too_many_viewers_are_told_so() -> None:
    async def story() -> None:
        demo = show.Show(60)
        app = http_app(lambda: demo.publication, SelfMetrics(), clock=lambda: demo.time)
        listener = await listen(app, "127.0.0.1:0")
        app[STATUS_PAGE].feed.viewers = MOST_VIEWERS
        async with aiohttp.ClientSession(listener.url) as session, session.get("/events") as answer:
            assert answer.status == 503
            assert "try later" in await answer.text()
        await listener.close()

    asyncio.run(asyncio.wait_for(story(), 20))
