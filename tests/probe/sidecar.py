"""A whole sidecar with its probe in a test: started, looked at, ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import aiohttp

from sidecar.app import Application
from sidecar.config import load_bytes

BASE = "listen: 127.0.0.1:0\ninterval: 200ms\ntimeout: 200ms\ngpu: {source: none}\n"
PROBE = "probe: {enabled: true, interval: 1s, timeout: 5s}\n"
WITHIN = 20.0
OFTEN = 0.3

Numbers = dict[str, float]


def application(url: str, more: str = PROBE, of_target: str = "") -> Application:
    return often(f"{BASE}{more}targets:\n  - {{url: '{url}'{of_target}}}\n")


def often(text: str) -> Application:
    """A sidecar that probes more often than a config may say, so that nobody waits."""
    config = load_bytes(text.encode(), "test")
    return Application(
        config.model_copy(update={"probe": config.probe.model_copy(update={"interval": OFTEN})})
    )


async def page(app: Application) -> Numbers:
    async with aiohttp.ClientSession() as session, session.get(app.url + "/metrics") as answer:
        rows = [line.rsplit(" ", 1) for line in (await answer.text()).splitlines() if line[:1] != "#"]
    return {key: float(value) for key, value in rows}


def total(numbers: Numbers, name: str, *having: str) -> float | None:
    found = [
        value
        for key, value in numbers.items()
        if key.startswith(f"inference_{name}{{") and all(one in key for one in having)
    ]
    return sum(found) if found else None


async def until(app: Application, holds: Callable[[Numbers], bool]) -> Numbers:
    deadline = time.monotonic() + WITHIN
    while True:
        numbers = await page(app)
        if holds(numbers):
            return numbers
        assert time.monotonic() < deadline, {key: one for key, one in numbers.items() if "probe" in key}
        await asyncio.sleep(0.05)


def probed(times: int, result: str = "ok", *having: str) -> Callable[[Numbers], bool]:
    return lambda numbers: (total(numbers, "probe_requests_total", f'"{result}"', *having) or 0) >= times


async def running(app: Application, story: Callable[[], Any]) -> None:
    await app.start()
    try:
        await story()
    finally:
        await app.close()
