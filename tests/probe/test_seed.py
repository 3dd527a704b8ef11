"""The gap of a lone request, told by probes of a whole sidecar: where it counts and where not."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from sidecar.simulator.engine import Engine
from sidecar.simulator.model import EngineConfig
from sidecar.simulator.request import Request
from sidecar.simulator.server import SimulatedVllm
from tests.probe.sidecar import WITHIN, application, probed, running, total, until


def lone_gap() -> float:
    """Of the simulated engine itself, in simulated time."""
    engine = Engine(EngineConfig())
    engine.submit(Request(prompt_tokens=16, output_tokens=200))
    engine.advance(60.0)
    return engine.telemetry.inter_token.total / engine.telemetry.inter_token.count


def test_an_idle_engine_gives_the_seed_of_the_idle_gap() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url)

            async def told() -> None:
                numbers = await until(
                    app, lambda found: total(found, "idle_inter_token_latency_seconds") is not None
                )
                assert app.runners["local"].signals.settings.idle_gap == pytest.approx(lone_gap(), rel=0.25)
                assert total(numbers, "idle_inter_token_latency_seconds") == pytest.approx(
                    lone_gap(), rel=0.25
                )

            await running(app, told)

    asyncio.run(story())


def test_a_gap_that_the_config_gives_is_not_overruled() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url, of_target=", capacity: {idle_inter_token_latency: 5ms}")

            async def told() -> None:
                await until(app, probed(2))
                assert app.runners["local"].signals.settings.idle_gap == 0.005

            await running(app, told)

    asyncio.run(story())


def test_a_busy_engine_gives_no_seed_and_is_not_asked_for_more() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:

            async def others() -> None:
                body = {"model": "sim/llama-8b", "prompt": "x" * 400, "max_tokens": 4000}
                async with session.post(server.url + "/v1/completions", json=body) as answer:
                    await answer.read()

            work = [asyncio.create_task(others()) for _ in range(3)]
            async with asyncio.timeout(WITHIN):
                while server.replica.in_flight < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            app = application(server.url)

            async def told() -> None:
                numbers = await until(app, probed(2))
                assert total(numbers, "probe_generation_tokens_total") == 8 * (
                    total(numbers, "probe_requests_total") or 0
                )
                assert app.runners["local"].signals.settings.idle_gap is None

            await running(app, told)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    asyncio.run(story())
