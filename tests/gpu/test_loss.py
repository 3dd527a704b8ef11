"""A GPU that is lost for good ends the sidecar where the config asks for it, and only there."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import aiohttp
import pytest

from sidecar.gpu.loss import EXIT_CODE, LossWatch
from sidecar.gpu.reading import GpuReading
from sidecar.snapshot import EMPTY_BLOCK, block_of

HEALTHY = "s01_healthy_two_h200"
FIRST = "GPU-00000000-1111-2222-3333-444444444444"
LOST, UNLOADED = "s02_gpu0_lost", "s08_driver_not_loaded"
CGROUP = {"err__nvmlDeviceGetCount_v2": "999"}  # as after a `systemctl daemon-reload`


@pytest.fixture
def watched(world, source):
    """What a watch says, a second a pass, of worlds in turn; `after` is five seconds."""

    def run(*worlds, deadline=5.0, retry=0.0, **changes):
        async def story():
            here = world(worlds[0])
            one = source(here, interval=1.0, retry=retry, start_deadline=deadline)
            watch = LossWatch()
            said = []
            try:
                for second, case in enumerate(worlds):
                    here.become(case, **(changes if second else {}))
                    said.append(watch.look(await one.read(deadline), float(second), 5.0))
            finally:
                await one.close()
            return said

        return asyncio.run(story())

    return run


def test_only_for_so_long_and_only_what_was_there(watched):
    said = watched(HEALTHY, *[LOST] * 7)
    assert not any(said[:6]), "five seconds from the first look that missed it"
    assert all(f"lost: {FIRST} (NVML 15" in one for one in said[6:])
    assert not any(watched(*[LOST] * 8)), "who begins without it doesn't end again"


def test_a_gpu_that_comes_back_was_not_lost(watched):
    assert not any(watched(HEALTHY, *[UNLOADED] * 4, HEALTHY, *[UNLOADED] * 4))


def test_a_driver_that_hangs_on(watched):
    said = watched(
        HEALTHY, *[HEALTHY] * 7, deadline=1.0, retry=60.0, delay_ms__nvmlDeviceGetPowerUsage="60000"
    )
    assert not any(said[:6])
    assert "the driver did not answer within" in said[-1]


def test_no_gpu_and_other_sources_are_no_loss(watched):
    assert not any(watched(*["s10_zero_gpus"] * 9))
    watch, up = LossWatch(), block_of([("gpu_up", {"gpu_uuid": FIRST}, 1.0)])
    assert not watch.look(GpuReading(up, True, "dcgm", 0.0), 0.0, 1.0)
    assert not any(watch.look(GpuReading(EMPTY_BLOCK, False, "dcgm", 0.0), at, 1.0) for at in (1.0, 9.0))


@pytest.mark.parametrize(("case", "cause"), [(LOST, "NVML 15"), (HEALTHY, "NVML 999")])
def test_the_process_ends_with_its_own_code_and_says_why(case, cause, world, tmp_path):
    here = world(HEALTHY)
    config = tmp_path / "config.yaml"
    config.write_text(
        "listen: 127.0.0.1:0\ntargets: [{url: 'http://127.0.0.1:9', runtime: vllm}]\n"
        "gpu: {source: nvml, interval: 500ms, timeout: 1s, exit_on_loss: 1s}\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "sidecar.cli", "run", "--config", str(config)],
        env=here.environ,
        stderr=subprocess.PIPE,
        text=True,
    )
    rescue = threading.Timer(60, process.kill)
    rescue.start()
    try:
        assert process.stderr is not None
        url = next(line.split()[-1] for line in process.stderr if "serving http" in line)
        asyncio.run(has(url, f'inference_gpu_up{{gpu_uuid="{FIRST}"}} 1'))
        here.become(case, **(CGROUP if case == HEALTHY else {}))
        said = process.stderr.read()
        assert process.wait() == EXIT_CODE == 3
    finally:
        rescue.cancel()
        process.kill()
        process.wait()
    why = said.splitlines()[-1]
    assert "ending with exit code 3, as gpu.exit_on_loss asks: lost: GPU-0000000" in why
    assert cause in why


async def has(url, line):
    async with asyncio.timeout(30), aiohttp.ClientSession() as session:
        while True:
            async with session.get(url) as answer:
                if line in await answer.text():
                    return
            await asyncio.sleep(0.05)
