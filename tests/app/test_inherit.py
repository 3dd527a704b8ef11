"""A new replica takes over from the fleet what others like it have shown."""

from __future__ import annotations

import asyncio
import time

from aiohttp import web

from sidecar.app import Application
from sidecar.config import load_bytes
from sidecar.simulator.server import SimulatedVllm

SEEDS = {"sim/llama-8b": {"service_time_seconds": 6.5, "idle_inter_token_latency_seconds": 0.009}}


def test_a_newcomer_takes_the_fleets_seeds() -> None:
    async def story() -> None:
        asked: list[str] = []

        async def seeds(request: web.Request) -> web.Response:
            asked.append(request.path)
            return web.json_response(SEEDS)

        fleet = web.Application()
        fleet.router.add_get("/v1/seeds", seeds)
        runner = web.AppRunner(fleet)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with SimulatedVllm() as server:
            config = (
                "listen: 127.0.0.1:0\ninterval: 200ms\ngpu: {source: none}\n"
                f"autoscaling: {{fleet: 'http://127.0.0.1:{port}'}}\ntargets: [{{url: '{server.url}'}}]\n"
            )
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()
            try:
                signals = app.runners["local"].signals
                deadline = time.monotonic() + 25
                while signals.settings.service_time is None:
                    assert time.monotonic() < deadline
                    await asyncio.sleep(0.1)
                assert signals.settings.service_time == 6.5
                assert signals.settings.idle_gap == 0.009
            finally:
                await app.close()
        await runner.cleanup()
        assert asked[0] == "/v1/seeds"

    asyncio.run(story())
