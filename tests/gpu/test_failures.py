"""Hangs, lost GPUs, other drivers, refusals: one GPU's or one driver's trouble stays its own."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from sidecar.gpu.allocation import Rule

TWO = "s01_healthy_two_h200"
FIRST = "GPU-00000000-1111-2222-3333-444444444444"
SECOND = "GPU-00000001-1111-2222-3333-444444444444"
SUCCESS = 'gpu_collect_success{source="nvml"}'


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def of(found, uuid):
    """Series of a GPU but for its Xid events, which the sidecar counts itself."""
    return {key for key in found if uuid in key and not key.startswith("gpu_xid_")}


def test_a_hang_in_any_call_fails_that_collection_and_no_more(world, source):
    """Every call that a collection makes, hanging in turn: cut at its deadline, then recovered from."""

    async def hang(function):
        here = world(TWO, **{f"delay_ms__{function}": "60000"})
        one = source(here, start_deadline=0.7, retry=0.0, interval=0.0)
        try:
            first = await one.read(0.7)
            if first.ok:  # a call of the second pass: GPM has measured
                await asyncio.sleep(0.12)
                first = await one.read(0.7)
            here.become(TWO)
            return function, first, await one.read(20.0)
        finally:
            await one.close()

    async def run():
        here = world(TWO)
        one = source(here)
        try:
            await one.read(5.0)
            await asyncio.sleep(0.12)
            assert (await one.read(5.0)).ok
        finally:
            await one.close()
        functions = {function for function, _ in here.calls} - {"nvmlShutdown", "nvmlGpmSampleFree"}
        assert {"nvmlInitWithFlags", "nvmlDeviceGetFieldValues", "nvmlGpmMetricsGet"} <= functions
        limit = asyncio.Semaphore(16)

        async def limited(function):
            async with limit:
                return await hang(function)

        return await asyncio.gather(*(limited(function) for function in functions))

    for function, hung, after in asyncio.run(run()):
        assert not hung.ok and hung.notes[0].reason == "timeout", function
        assert after.ok, (function, after.notes)


def test_while_a_call_hangs_the_loop_answers(world, source):
    """A server on the same loop answers request after request, all of them before the hung reading ends."""

    async def run():
        one = source(world(TWO, delay_ms__nvmlDeviceGetPowerUsage="60000"), start_deadline=1.0)

        async def answer(reader, writer):
            await reader.readline()
            writer.write(b"page\n")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reading = asyncio.create_task(one.read(1.0))
        before_the_end = 0
        while before_the_end < 20 and not reading.done():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET\n")
            assert await reader.read() == b"page\n"
            writer.close()
            before_the_end += not reading.done()
        result = await reading
        server.close()
        await one.close()
        return before_the_end, result

    answered, hung = asyncio.run(run())
    assert answered == 20
    assert not hung.ok


def test_the_last_reading_is_shown_until_it_is_three_intervals_old(world, source, series):
    here, clock = world(TWO), Clock()
    one = source(here, mono=clock, wall=lambda: 7.0, interval=10.0, start_deadline=1.0)

    async def run():
        try:
            good = await one.read(5.0)
            here.become(TWO, delay_ms__nvmlDeviceGetPowerUsage="60000")
            clock.now += 10
            hung = await one.read(0.2)
            clock.now += 21
            return good, hung, await one.read(0.2)
        finally:
            await one.close()

    good, hung, old = (one for one in asyncio.run(run()))
    power = f'gpu_power_watts{{gpu_uuid="{FIRST}"}}'
    assert series(hung.block)[power] == series(good.block)[power]
    assert series(hung.block)[SUCCESS] == 0
    left = series(old.block)
    assert all(key.startswith("gpu_collect_") for key in left)
    assert left['gpu_collect_timestamp_seconds{source="nvml"}'] == 7.0 == old.time


def test_one_lost_gpu_of_two(world, source, series):
    here = world(TWO)
    one = source(here)

    async def run():
        try:
            before = await one.read(5.0)
            here.become(TWO, gpu__0__lost="1")
            return series(before.block), await one.read(5.0)
        finally:
            await one.close()

    before, reading = asyncio.run(run())
    after = series(reading.block)
    assert of(after, FIRST) == {f'gpu_up{{gpu_uuid="{FIRST}"}}'}
    assert after[f'gpu_up{{gpu_uuid="{FIRST}"}}'] == 0
    assert {key for key in of(before, SECOND) if "active" not in key} <= of(after, SECOND)
    assert after[SUCCESS] == 1
    assert after["gpu_devices"] == 2
    assert any(note.gpu == FIRST and note.reason == "lifecycle" for note in reading.notes)


def test_a_gpu_that_is_lost_to_a_new_child_is_remembered(world, source, series):
    """Its handle is refused then, so that nothing but the sidecar's memory knows its UUID."""
    here = world(TWO)
    one = source(here)

    async def run():
        try:
            await one.read(5.0)
            os.kill(one.child_pid, signal.SIGKILL)
            here.become(TWO, gpu__0__lost="1")
            await one.read(5.0)  # notices that the child is gone
            return await one.read(5.0)
        finally:
            await one.close()

    after = series(asyncio.run(run()).block)
    assert of(after, FIRST) == {f'gpu_up{{gpu_uuid="{FIRST}"}}'}
    assert after[f'gpu_up{{gpu_uuid="{SECOND}"}}'] == 1


def test_a_configured_gpu_that_was_never_seen_is_down(world, source, series):
    rule = Rule(targets=("local",), devices=(FIRST, SECOND))
    one = source(world("s02_gpu0_lost"), rule=rule)

    async def run():
        try:
            return await one.read(5.0)
        finally:
            await one.close()

    found = series(asyncio.run(run()).block)
    assert found[f'gpu_up{{gpu_uuid="{FIRST}"}}'] == 0
    assert found[f'gpu_up{{gpu_uuid="{SECOND}"}}'] == 1


def test_only_configured_gpus_are_shown(world, source, series):
    one = source(world(TWO), rule=Rule(targets=("local",), devices=(SECOND,)))

    async def run():
        try:
            return await one.read(5.0)
        finally:
            await one.close()

    found = series(asyncio.run(run()).block)
    assert not of(found, FIRST)
    assert found[f'gpu_allocation_info{{gpu_uuid="{SECOND}",target="local"}}'] == 1


@pytest.mark.parametrize("retry", [0.0, 60.0])
def test_every_gpu_answers_999(retry, world, source, series):
    """The container lost its device nodes: known GPUs are down, the cause is named."""
    here = world(TWO)
    one = source(here, retry=retry)
    unknown = {
        f"err__{function}": "999"
        for function in ("nvmlDeviceGetUtilizationRates", "nvmlDeviceGetCount_v2", "nvmlDeviceGetPowerUsage")
    }

    async def run():
        try:
            await one.read(5.0)
            here.become(TWO, **unknown)
            return await one.read(5.0), await one.read(5.0)
        finally:
            await one.close()

    for reading in asyncio.run(run()):
        found = series(reading.block)
        others = {key: value for key, value in found.items() if not key.startswith("gpu_collect_")}
        assert others == {
            f'gpu_up{{gpu_uuid="{FIRST}"}}': 0.0,
            f'gpu_up{{gpu_uuid="{SECOND}"}}': 0.0,
        }
        assert "daemon-reload" in reading.notes[0].detail


def test_a_refused_source_is_not_asked_at_every_collection(world, source):
    here, clock = world("s08_driver_not_loaded"), Clock()
    one = source(here, mono=clock)

    async def run():
        results = []
        for wait in (0, 30, 29, 2):
            clock.now += wait
            reading = await one.read(5.0)
            results.append((reading.ok, sum(name == "nvmlInitWithFlags" for name, _ in here.calls)))
        return results

    assert asyncio.run(run()) == [(False, 1), (False, 1), (False, 1), (False, 2)]


def test_permission_is_counted_once_and_asked_for_seldom(world, source, series):
    here = world("s20_no_permission_gpu1")
    one = source(here)

    async def run():
        try:
            for _ in range(4):
                reading = await one.read(5.0)
            return reading
        finally:
            await one.close()

    found = series(asyncio.run(run()).block)
    assert found['gpu_collect_errors_total{reason="permission",source="nvml"}'] == 2  # of two GPUs
    asked = [of for name, of in here.calls if name == "nvmlDeviceGetTotalEnergyConsumption"]
    assert sorted(asked) == ["gpu.0", "gpu.1"]


def test_a_transient_error_is_absent_for_one_collection(world, source, series):
    here = world(TWO, gpu__0__power_mw="!10")
    one = source(here)
    power = f'gpu_power_watts{{gpu_uuid="{FIRST}"}}'

    async def run():
        try:
            timeout = await one.read(5.0)
            here.become(TWO)
            return timeout, await one.read(5.0)
        finally:
            await one.close()

    timeout, after = (series(reading.block) for reading in asyncio.run(run()))
    assert power not in timeout
    assert timeout['gpu_collect_errors_total{reason="timeout",source="nvml"}'] == 1
    assert after[power] == 627.4


def test_utilization_of_an_integrated_gpu_is_a_false_0(world, source, series):
    here = world("s04_gb10_unified", gpu__0__name="NVIDIA Thor", gpu__0__util__gpu="0")

    async def run(**options):
        one = source(here, **options)
        try:
            return series((await one.read(5.0)).block)
        finally:
            await one.close()

    assert not [key for key in asyncio.run(run()) if "utilization" in key]
    asked = asyncio.run(run(optional=["gpu_utilization_ratio"]))
    assert [value for key, value in asked.items() if "utilization" in key] == [0.0]


def test_unified_memory_is_named_and_stood_in_for_only_when_asked(world, source, series):
    here = world("s04_gb10_unified")

    async def run(**options):
        one = source(here, **options)
        try:
            return series((await one.read(5.0)).block)
        finally:
            await one.close()

    found = asyncio.run(run())
    assert [key for key in found if 'memory_kind="unified"' in key]
    assert not [key for key in found if key.startswith("gpu_memory_u")]
    asked = asyncio.run(run(optional=["gpu_memory_used_bytes"]))
    assert asked[f'gpu_memory_used_bytes{{gpu_uuid="{FIRST}"}}'] == 6910320640 + 18874368


def test_none_loads_no_library():
    from sidecar.gpu.source import open_source

    source = open_source("none")
    reading = asyncio.run(source.read(1.0))
    assert not reading.ok and not reading.block.layout.series
    assert "libnvidia-ml" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize(
    "answer",
    [{}, {"gpus": [{}], "devices": 1}, {"gpus": None, "devices": 1}, {"gpus": [], "devices": "x"}],
)
def test_an_answer_of_another_shape_is_a_failed_collection(answer, world, source, series):
    """The child is this project's own, so this is a driver or a bug; the loop goes on either way."""

    class Scripted:
        pid = 0

        async def ask(self, deadline):
            return answer

        async def end(self):
            pass

    one = source(world(TWO))
    one._child = Scripted()

    async def run():
        try:
            return await one.read(5.0), await one.read(5.0)
        finally:
            await one.close()

    odd, after = asyncio.run(run())
    assert not odd.ok and odd.notes[0].reason == "parse"
    assert after.ok
