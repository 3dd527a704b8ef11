"""Which source: auto, by name, none, simulated."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sidecar.gpu.nvml.source import NvmlSource
from sidecar.gpu.pages.source import PageSource
from sidecar.gpu.reading import NO_READING, GpuReading
from sidecar.gpu.simulated import SimulatedSource
from sidecar.gpu.source import FirstOf, NoSource, collect, open_source

SAMPLES = Path(__file__).parent / "samples"


async def l4(url, seconds):
    return (SAMPLES / "dcgm_exporter_l4_580.prom").read_bytes()


class Scripted:
    """A source that succeeds as told, once each."""

    def __init__(self, name, *results):
        self.name, self.results, self.asked, self.closed = name, list(results), 0, False

    async def read(self, deadline):
        self.asked += 1
        return GpuReading(NO_READING.block, self.results.pop(0), self.name, 0.0)

    async def close(self):
        self.closed = True


def read(source, times):
    async def run():
        return [(reading.source, reading.ok) for reading in [await source.read(1.0) for _ in range(times)]]

    return asyncio.run(run())


def test_the_first_that_gives_gpus_is_kept():
    nvml, page, runtime = (
        Scripted("nvml", False, False, False),
        Scripted("dcgm", True, True, False),
        Scripted("t"),
    )
    assert read(FirstOf([nvml, page, runtime]), 3) == [("dcgm", True), ("dcgm", True), ("dcgm", False)]
    assert runtime.asked == 0 and runtime.closed


def test_one_of_more_trust_takes_over():
    nvml, page = Scripted("nvml", False, True, False), Scripted("dcgm", True, True, True)
    assert read(FirstOf([nvml, page]), 3) == [("dcgm", True), ("nvml", True), ("nvml", False)]
    assert page.asked == 1 and page.closed


def test_where_nothing_is_nothing_is_shown():
    source = FirstOf([Scripted("nvml", False), Scripted("dcgm", False)])
    reading = asyncio.run(source.read(1.0))
    assert (reading.ok, reading.source) == (False, "none")
    assert not reading.block.layout.series


def test_auto_on_a_machine_without_a_driver_takes_the_page(series):
    source = open_source(url="http://exporter", fetch=l4, targets=["local"], environ={})

    async def run():
        try:
            return await source.read(5.0)
        finally:
            await source.close()

    reading = asyncio.run(run())
    assert reading.ok and reading.source == "dcgm"
    assert 'gpu_collect_success{source="dcgm"}' in series(reading.block)
    assert [key for key in series(reading.block) if key.startswith("gpu_allocation") and "local" in key]


def test_a_runtimes_own_page_is_asked_last():
    async def triton(url, seconds):
        if url == "http://triton":
            return (SAMPLES / "triton_t4_gpu.prom").read_bytes()
        raise OSError("refused")

    source = open_source(url="http://exporter", runtime_urls=["http://triton"], fetch=triton, environ={})

    async def run():
        try:
            return await source.read(5.0)
        finally:
            await source.close()

    assert asyncio.run(run()).source == "triton"


def test_by_name():
    assert isinstance(open_source("none"), NoSource)
    assert isinstance(open_source("nvml"), NvmlSource)
    assert isinstance(open_source("amd", url="http://x", fetch=l4), PageSource)
    assert isinstance(open_source("auto"), FirstOf)


@pytest.mark.parametrize(("source", "options"), [("dcgm", {}), ("dcgm", {"url": "http://x"}), ("magic", {})])
def test_what_cannot_be_opened(source, options):
    with pytest.raises(ValueError):
        open_source(source, **options)


def test_an_answer_that_is_asked_for_by_name_fails_aloud(series):
    source = open_source("nvml", environ={})

    async def run():
        try:
            return await source.read(5.0)
        finally:
            await source.close()

    reading = asyncio.run(run())
    assert series(reading.block)['gpu_collect_success{source="nvml"}'] == 0
    assert reading.notes[0].reason == "library"


def test_simulated_gpus_say_so_and_follow_the_load(series):
    now = [0.0]
    loads = [[0.0, 0.0]]
    source = SimulatedSource(lambda: loads[0], mono=lambda: now[0])
    uuid = "GPU-51a10000-0000-0000-0000-000000000001"

    async def run():
        idle = series((await source.read(1.0)).block)
        loads[0], now[0] = [0.0, 1.0], 10.0
        return idle, series((await source.read(1.0)).block)

    idle, busy = asyncio.run(run())
    infos = [key for key in busy if key.startswith("gpu_info")]
    assert len(infos) == 2 and all('name="Simulated GPU (demo)"' in key for key in infos)
    power = f'gpu_power_watts{{gpu_uuid="{uuid}"}}'
    assert idle[power] == 70 and busy[power] == 637
    energy = f'gpu_energy_joules_total{{gpu_uuid="{uuid}"}}'
    assert busy[energy] - idle[energy] == 6370
    assert busy[f'gpu_allocation_info{{gpu_uuid="{uuid}",target="local"}}'] == 1
    assert busy["gpu_devices"] == 2


def test_collecting_goes_on_until_it_is_cancelled():
    source, seen = Scripted("nvml", *[True, False] * 50), []

    async def run():
        four = asyncio.Event()

        def publish(reading):
            seen.append(reading.ok)
            if len(seen) == 4:
                four.set()

        task = asyncio.create_task(collect(source, 0.001, 1.0, publish))
        await four.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert seen[:4] == [True, False, True, False]
    assert source.closed
