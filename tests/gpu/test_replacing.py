"""When a child is replaced, and what the next one sees."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from sidecar.gpu.allocation import Rule
from sidecar.gpu.nvml.source import NvmlSource
from sidecar.gpu.owners import Owners

TWO = "s01_healthy_two_h200"
FIRST = "GPU-00000000-1111-2222-3333-444444444444"
SECOND = "GPU-00000001-1111-2222-3333-444444444444"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def of(found, uuid):
    """Series of a GPU but for its Xid events, which the sidecar counts itself."""
    return {key for key in found if uuid in key and not key.startswith("gpu_xid_")}


def pids_over(one, clock, steps):
    """The child's pid after each step's collection."""

    async def run():
        pids = []
        try:
            for wait, change in steps:
                clock.now += wait
                if change is not None:
                    change()
                await one.read(5.0)
                pids.append(one.child_pid)
            return pids
        finally:
            await one.close()

    return asyncio.run(run())


def test_a_child_is_replaced_after_a_day(world, source):
    clock = Clock()
    one = source(world(TWO), mono=clock)
    first, still, gone, new = pids_over(one, clock, [(0, None), (86_000, None), (500, None), (10, None)])
    assert first == still and gone is None and new not in (None, first)


def test_a_gpu_that_was_reset_is_seen_by_a_new_child(world, source):
    clock, here = Clock(), world(TWO)
    one = source(here, mono=clock)

    def lost():
        here.become(TWO, gpu__0__lost="1")

    def back():
        here.become(TWO)

    steps = [(0, None), (10, lost), (299, None), (2, None), (10, back), (400, None)]
    first, second, third, gone, new, after = pids_over(one, clock, steps)
    assert first == second == third and gone is None and new == after != first


def test_a_gpu_of_somebody_else_is_counted_and_passed_over(world, source, series):
    clock = Clock()
    one = source(world(TWO, gpu__0__handle="!4"), mono=clock)

    async def run():
        try:
            before = await one.read(5.0)
            pid = one.child_pid
            clock.now += 400
            await one.read(5.0)
            return before, pid == one.child_pid
        finally:
            await one.close()

    reading, same_child = asyncio.run(run())
    found = series(reading.block)
    assert reading.ok and found["gpu_devices"] == 2
    assert not of(found, FIRST) and of(found, SECOND)
    assert ("GPU 0", "permission") in {(note.what, note.reason) for note in reading.notes}
    assert same_child  # it is no lost GPU that a new child might see


def test_a_driver_that_was_unloaded_ends_the_child(world, source):
    clock, here = Clock(), world(TWO)
    one = source(here, mono=clock)

    def unloaded():
        here.become(TWO, err__nvmlDeviceGetPowerUsage="1")

    first, gone = pids_over(one, clock, [(0, None), (10, unloaded)])
    assert first is not None and gone is None


def test_a_replaced_driver_library_is_loaded_by_a_new_child(world, drivers, tmp_path, series):
    """After a mismatch the next child dlopens what lies there now; the process itself never could."""
    library = tmp_path / "lib"
    library.mkdir()
    shutil.copy(drivers["470"] / "libnvidia-ml.so.1", library)
    here = world("s07_lib_mismatch")
    here.environ["LD_LIBRARY_PATH"] = str(library)
    one = NvmlSource(Owners(Rule()), environ=here.environ, retry=0.0)

    async def run():
        try:
            mismatch = await one.read(5.0)
            new = tmp_path / "new"
            shutil.copy(drivers["590"] / "libnvidia-ml.so.1", new)
            new.replace(library / "libnvidia-ml.so.1")
            here.become("s01_healthy_two_h200")
            return mismatch, await one.read(5.0)
        finally:
            await one.close()

    mismatch, after = asyncio.run(run())
    assert mismatch.notes[0].reason == "mismatch"
    assert f'gpu_temperature_margin_celsius{{gpu_uuid="{FIRST}"}}' in series(after.block)


def test_a_cancelled_collection_leaves_no_child(world, source):
    one = source(world(TWO, delay_ms__nvmlDeviceGetPowerUsage="60000"), start_deadline=30.0)

    async def run():
        task = asyncio.create_task(one.read(30.0))
        await asyncio.sleep(0.2)
        pid = one.child_pid
        assert pid is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    pid = asyncio.run(run())
    assert not Path(f"/proc/{pid}").exists()
