"""The whole sidecar in a world: a driver that hangs moves neither the page nor the other sources."""

from __future__ import annotations

import asyncio

import aiohttp

from sidecar.app import Application
from sidecar.config import load_bytes
from sidecar.simulator.server import SimulatedVllm

HANG = "s01_healthy_two_h200"
FIRST = "GPU-00000000-1111-2222-3333-444444444444"
POWER = f'inference_gpu_power_watts{{gpu_uuid="{FIRST}"}} 627.4\n'
SUCCESS = 'inference_gpu_collect_success{source="nvml"}'


def last_success(page):
    """When the runtime was last understood, as the page says."""
    return next(line for line in page.splitlines() if line.startswith("inference_target_last_success"))


async def page_with(session, url, *wanted):
    for _ in range(300):
        async with session.get(url) as answer:
            page = await answer.text()
        if all(part in page for part in wanted):
            return page
        await asyncio.sleep(0.05)
    raise AssertionError(f"not within the time: {wanted}")


def test_the_config_says_whose_gpu_it_is(world, monkeypatch):
    for name, value in world(HANG).environ.items():
        monkeypatch.setenv(name, value)

    async def story():
        async with SimulatedVllm() as one, SimulatedVllm() as two, aiohttp.ClientSession() as session:
            config = (
                "listen: 127.0.0.1:0\ninterval: 200ms\ngpu: {source: nvml, interval: 500ms}\ntargets:\n"
                f"  - {{name: one, url: '{one.url}'}}\n  - {{name: two, url: '{two.url}', gpus: [{FIRST}]}}\n"
            )
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()
            try:
                mine = f'inference_gpu_allocation_info{{gpu_uuid="{FIRST}",target="two"}} 1\n'
                page = await page_with(session, app.url + "/metrics", mine, 'target_up{target="one"')
                assert page.count("inference_gpu_allocation_info{") == 1
            finally:
                await app.close()

    asyncio.run(story())


def test_a_hang_in_the_driver(world, monkeypatch):
    here = world(HANG)
    for name, value in here.environ.items():
        monkeypatch.setenv(name, value)

    async def story():
        async with SimulatedVllm() as server, aiohttp.ClientSession() as session:
            gpu = "gpu: {source: nvml, interval: 500ms, timeout: 500ms}"
            config = f"listen: 127.0.0.1:0\ninterval: 200ms\n{gpu}\ntargets: [{{url: '{server.url}'}}]"
            app = Application(load_bytes(config.encode(), "test"))
            await app.start()
            metrics = app.url + "/metrics"
            try:
                await page_with(session, metrics, POWER, f"{SUCCESS} 1\n", "inference_target_ready")
                here.become(HANG, delay_ms__nvmlDeviceGetPowerUsage="1500")
                hung = await page_with(session, metrics, f"{SUCCESS} 0\n", 'reason="timeout"} 1\n')
                moved = await page_with(session, metrics, f"{SUCCESS} 0\n")
                while last_success(moved) == last_success(hung):  # the runtime goes on being read
                    moved = await page_with(session, metrics, f"{SUCCESS} 0\n")
                here.become(HANG)
                await page_with(session, metrics, POWER, f"{SUCCESS} 1\n")
            finally:
                await app.close()

    asyncio.run(story())
    assert here.at_end == "samples=0 events=0 initialised=0"
