"""What a reload must not take away: the objectives' counts and windows of the targets that stay."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp

from sidecar.app import Application
from sidecar.config import ConfigFile
from sidecar.simulator.server import SimulatedVllm

HEAD = "listen: 127.0.0.1:0\ninterval: 200ms\ntimeout: 200ms\n"
SLOS = "slos:\n  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%}\n"
MORE = "  - {name: later, signal: e2e_request_latency, threshold: 10s, objective: 95%}\n"


async def numbers(session: aiohttp.ClientSession, url: str, name: str) -> dict[str, float]:
    async with session.get(url + "/metrics") as answer:
        rows = [line.rsplit(" ", 1) for line in (await answer.text()).splitlines()]
    return {key: float(value) for key, value in rows if key.startswith(f"inference_{name}{{")}


async def ask(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url + "/v1/models") as answer:
        model = (await answer.json())["data"][0]["id"]
    body = {"model": model, "prompt": "hello", "max_tokens": 3, "ignore_eos": True}
    async with session.post(url + "/v1/completions", json=body) as answer:
        await answer.read()


def test_a_reload_takes_no_event_and_no_window_of_a_target_that_stays(tmp_path: Path) -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            path = tmp_path / "config.yaml"

            def write(slos: str, more: str = "") -> None:
                path.write_text(f"{HEAD}targets: [{{name: one, url: '{server.url}'{more}}}]\n{slos}")

            async def seen(events: float, slos: int = 1) -> dict[str, float]:
                deadline = time.monotonic() + 15
                while True:
                    found = await numbers(session, app.url, "slo_events_total")
                    if len(found) == slos and all(value >= events for value in found.values()):
                        return found
                    assert time.monotonic() < deadline, f"{found} never reached {events}"
                    await asyncio.sleep(0.05)

            async def covered() -> float:
                rows = await numbers(session, app.url, "slo_window_coverage_ratio")
                return next(
                    value for key, value in rows.items() if 'slo="ttft"' in key and 'window="5m"' in key
                )

            write(SLOS)
            file = ConfigFile(path)
            app = Application(file.config, file)
            await app.start()
            try:
                await seen(0)
                for _ in range(4):
                    await ask(session, server.url)
                await seen(4)
                assert await app.reload()
                await ask(session, server.url)
                assert set((await seen(5)).values()) == {5}, "nothing changed"

                before = await covered()
                write(SLOS, ", wedged_after: 90s")
                assert await app.reload()
                await ask(session, server.url)
                assert set((await seen(6)).values()) == {6}, "the target is read anew"
                assert await covered() >= before

                before = await covered()
                write(SLOS + MORE)
                assert await app.reload()
                await seen(0, slos=2)
                assert await covered() >= before, "another objective came"
            finally:
                await app.close()

    asyncio.run(story())
