"""A replica that is being drained is left alone by its sidecar's own probes, and probed again afterwards."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import aiohttp

from sidecar.app import Application
from sidecar.simulator.request import Request
from sidecar.simulator.server import SimulatedVllm
from tests.probe.sidecar import BASE, OFTEN, PROBE, application, often, page, probed, running, total, until

QUIET = 4 * OFTEN


def work(server: SimulatedVllm) -> None:
    """A request that goes on for as long as the test does."""
    server.live.submit(Request(prompt_tokens=50, output_tokens=3000))


async def asked(app: Application, query: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"{app.url}/drain{query}") as answer:
        return answer.status


async def count(app: Application, *having: str) -> float:
    return total(await page(app), "probe_requests_total", *having) or 0.0


async def paused(app: Application, *having: str) -> float:
    """How many probes there have been, once what was under way has had its time."""
    await asyncio.sleep(OFTEN + 0.3)
    return await count(app, *having)


async def draining(
    app: Application, server: SimulatedVllm, query: str, *having: str
) -> tuple[asyncio.Task[int], float]:
    """A drain of a server that has work, and how many probes there had been when it had taken hold."""
    work(server)
    drain = asyncio.create_task(asked(app, query))
    return drain, await paused(app, *having)


def test_no_probe_is_sent_while_a_drain_waits_and_they_go_on_once_its_client_has_left() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url)

            async def told() -> None:
                await until(app, probed(1))
                drain, before = await draining(app, server, "?timeout=1h")
                await asyncio.sleep(QUIET)
                assert not drain.done()
                assert await count(app) == before, "a replica that leaves has work enough"
                drain.cancel()
                with suppress(asyncio.CancelledError):
                    await drain
                await until(app, probed(int(before) + 2))

            await running(app, told)

    asyncio.run(story())


def test_probes_go_on_an_interval_after_the_bound() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url)

            async def told() -> None:
                await until(app, probed(1))
                drain, before = await draining(app, server, "?timeout=2s")
                assert await drain == 504
                assert await count(app) == before
                await until(app, probed(int(before) + 2))

            await running(app, told)

    asyncio.run(story())


def test_a_probe_that_is_under_way_is_cut_and_holds_no_drain_up() -> None:
    async def story() -> None:
        async with SimulatedVllm() as server:
            app = application(server.url, PROBE.replace("5s", "60s"))

            async def told() -> None:
                await until(app, probed(1))
                server.slow_down(200)  # eight tokens: some 20 s
                await asyncio.sleep(0.5)  # what was read before it
                before = total(await until(app, lambda found: in_flight(found) > 0), "probe_requests_total")
                began = time.monotonic()
                assert await asked(app, "?timeout=15s") == 200
                assert time.monotonic() - began < 10
                assert await count(app) == before, "it says nothing of the target"

            await running(app, told)

    asyncio.run(story())


def in_flight(numbers: dict[str, float]) -> float:
    return sum(total(numbers, f"requests_{one}") or 0.0 for one in ("running", "waiting"))


def test_the_target_next_to_it_is_probed_on() -> None:
    async def story() -> None:
        async with SimulatedVllm() as leaving, SimulatedVllm() as staying:
            targets = f"targets: [{{name: one, url: '{leaving.url}'}}, {{name: two, url: '{staying.url}'}}]\n"
            app = often(BASE + PROBE + targets)

            async def told() -> None:
                one, two = 'target="one"', 'target="two"'
                await until(app, lambda found: all(probed(1, "ok", of)(found) for of in (one, two)))
                drain, before = await draining(app, leaving, "?timeout=1h&target=one", one)
                goes_on = int(await count(app, two)) + 2
                await until(app, probed(goes_on, "ok", two))
                assert await count(app, one) == before
                drain.cancel()
                with suppress(asyncio.CancelledError):
                    await drain

            await running(app, told)

    asyncio.run(story())
