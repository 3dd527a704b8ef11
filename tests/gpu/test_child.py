"""The child: its calls, its size, what it lets go, its events, and the traps of the binding."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

TWO = "s01_healthy_two_h200"
FIRST = "GPU-00000000-1111-2222-3333-444444444444"
SECOND = "GPU-00000001-1111-2222-3333-444444444444"


def rss_of(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def has_ended(pid):
    folder = Path(f"/proc/{pid}")
    return not folder.exists() or "zombie" in (folder / "status").read_text()


async def until_ended(pid):
    for _ in range(500):
        if has_ended(pid):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{pid} goes on")


def eight(world):
    """Eight H200 on the stand-in's two."""
    lines = {}
    text = (Path(__file__).parent / "cases" / f"{TWO}.state").read_text()
    for line in text.splitlines():
        if line.startswith("gpu.0."):
            key, _, value = line.removeprefix("gpu.0.").partition("=")
            for i in range(8):
                lines[f"gpu.{i}.{key}".replace(".", "__")] = (
                    value.replace("GPU-00000000", f"GPU-0000000{i}") if key == "uuid" else value
                )
    return world(TWO, gpus="8", **lines)


def test_calls_of_a_pass_and_size_of_the_child(world, source):
    """At most 15 calls a GPU once the facts are known, the list of processes taking two; RSS ≤ 16 MB."""
    here = eight(world)
    one = source(here)

    async def run():
        try:
            for _ in range(3):
                assert (await one.read(5.0)).ok
                await asyncio.sleep(0.12)
            before = len(here.calls)
            reading = await one.read(5.0)
            return reading, here.calls[before:], rss_of(one.child_pid)
        finally:
            await one.close()

    reading, calls, rss = asyncio.run(run())
    assert reading.ok and reading.block.get("gpu_devices") == 8
    a_gpu = Counter(function for function, of in calls if of == "gpu.0")
    assert sum(a_gpu.values()) <= 15, a_gpu
    assert a_gpu["nvmlDeviceGetFieldValues"] == 1
    assert {function for function, count in a_gpu.items() if count > 1} == {
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetComputeRunningProcesses_v3",
    }
    others = Counter(function for function, of in calls if of == "-")
    assert others == {"nvmlDeviceGetCount_v2": 1, "nvmlGpmMetricsGet": 8}
    assert rss <= 16e6, rss


@pytest.mark.parametrize("how", ["close", "sigterm"])
def test_everything_is_let_go_at_the_end(how, world, source):
    """Event sets, GPM samples and NVML itself: the GPU can be reset, and no GPU is left stuck."""
    here = world(TWO)
    one = source(here)

    async def run():
        reading = await one.read(5.0)
        while not any("xid" in key.signal.name for key in reading.block.layout.series):
            await asyncio.sleep(0.05)  # until the events are registered
            reading = await one.read(5.0)
        if how == "close":
            await one.close()
            return
        pid = one.child_pid
        os.kill(pid, signal.SIGTERM)
        await until_ended(pid)
        await one.close()

    asyncio.run(run())
    assert here.at_end == "samples=0 events=0 initialised=0"


def test_the_child_ends_with_its_parent(world, source):
    here = world(TWO)
    one = source(here)

    async def run():
        await one.read(5.0)
        pid = one.child_pid
        one._child._process.stdin.close()  # what the kernel does when the parent dies
        await until_ended(pid)
        await one.close()

    asyncio.run(run())
    assert here.at_end == "samples=0 events=0 initialised=0"


def test_xid_events_are_counted_with_bounded_labels(world, source, series):
    here = world(TWO)
    one = source(here)

    async def run():
        reading = await one.read(5.0)
        while f'gpu_xid_errors_total{{gpu_uuid="{FIRST}",xid="79"}}' not in series(reading.block):
            await asyncio.sleep(0.05)
            reading = await one.read(5.0)
        quiet = series(reading.block)
        here.become(TWO, event__1="0,8,79", event__2="1,8,31", event__3="0,8,9999", event__4="0,8,79")
        while reading.block.get("gpu_xid_errors_total", gpu_uuid=FIRST, xid="79") < 2:
            await asyncio.sleep(0.05)
            reading = await one.read(5.0)
        os.kill(one.child_pid, signal.SIGKILL)
        await one.read(5.0)
        after = await one.read(5.0)
        await one.close()
        return quiet, series(reading.block), series(after.block)

    quiet, loud, after = asyncio.run(run())
    counted = {key: value for key, value in loud.items() if key.startswith("gpu_xid_errors_total") and value}
    assert counted == {
        f'gpu_xid_errors_total{{gpu_uuid="{FIRST}",xid="79"}}': 2,
        f'gpu_xid_errors_total{{gpu_uuid="{FIRST}",xid="other"}}': 1,
        f'gpu_xid_errors_total{{gpu_uuid="{SECOND}",xid="31"}}': 1,
    }
    assert loud[f'gpu_xid_last{{gpu_uuid="{SECOND}"}}'] == 31
    assert f'gpu_xid_last_timestamp_seconds{{gpu_uuid="{FIRST}"}}' in loud
    assert quiet[f'gpu_xid_errors_total{{gpu_uuid="{FIRST}",xid="79"}}'] == 0
    assert not [key for key in quiet if key.startswith("gpu_xid_last")]
    for key, value in counted.items():
        assert after[key] >= value  # the sidecar counts, not the child


def test_a_gpu_without_events_has_no_counter(world, source, series):
    one = source(world(TWO, gpu__0__event_types="-"))

    async def run():
        reading = await one.read(5.0)
        while not any("xid" in key for key in series(reading.block)):
            await asyncio.sleep(0.05)
            reading = await one.read(5.0)
        await one.close()
        return series(reading.block)

    found = asyncio.run(run())
    assert not [key for key in found if "xid" in key and FIRST in key]
    assert [key for key in found if "xid" in key and SECOND in key]


@pytest.mark.parametrize(
    ("processes", "quirk", "count"),
    [
        ("101:1000,102:2000", "0", 2),
        ("101:na,102:2000", "0", 2),
        ("101:1000,102:2000", "1", None),  # records of 535.43 to 535.86: the second one is garbage
        ("0:1000", "0", None),
        ("101:999999999999999", "0", None),
    ],
)
def test_a_list_of_processes_with_an_impossible_entry_is_dropped(
    processes, quirk, count, world, source, series
):
    one = source(world(TWO, gpu__0__procs__compute=processes, quirk__procinfo_cc=quirk))

    async def run():
        try:
            return await one.read(5.0)
        finally:
            await one.close()

    reading = asyncio.run(run())
    assert series(reading.block).get(f'gpu_processes{{gpu_uuid="{FIRST}"}}') == count
    implausible = [note for note in reading.notes if note.gpu == FIRST and note.reason == "implausible"]
    assert bool(implausible) is (count is None)


def test_a_name_that_cannot_be_decoded_costs_the_name(world, source, series):
    here = world(TWO)
    here.state.write_bytes(here.state.read_bytes().replace(b"gpu.0.name=NVIDIA", b"gpu.0.name=\xff\xfe"))
    one = source(here)

    async def run():
        try:
            return await one.read(5.0)
        finally:
            await one.close()

    found = series(asyncio.run(run()).block)
    info = next(key for key in found if key.startswith("gpu_info") and FIRST in key)
    assert ",name=" not in info
    assert f'gpu_power_watts{{gpu_uuid="{FIRST}"}}' in found


def test_opt_in_families(world, source, series):
    optional = [
        "gpu_pipe_active_ratio",
        "gpu_encoder_utilization_ratio",
        "gpu_decoder_utilization_ratio",
        "gpu_bar1_used_bytes",
        "gpu_performance_state",
        "gpu_process_memory_bytes",
        "gpu_temperature_threshold_celsius",
        "gpu_fabric_state",
        "gpu_ecc_lifetime_errors",
        "gpu_serial",
    ]
    changes = {
        "gpu__0__temp_threshold__1": "90",
        "gpu__0__fabric__state": "3",
        "gpu__0__fabric__status": "0",
        "gpu__0__field__5": "3:1",
    }
    here = world(TWO, **changes)

    async def run(**options):
        one = source(here, **options)
        try:
            await one.read(5.0)
            await asyncio.sleep(0.12)
            return series((await one.read(5.0)).block)
        finally:
            await one.close()

    plain, asked = asyncio.run(run()), asyncio.run(run(optional=optional))
    new = {key: value for key, value in asked.items() if key not in plain and FIRST in key}
    assert {key.partition("{")[0] for key in new} == {*optional[:-1], "gpu_info"}
    assert new[f'gpu_pipe_active_ratio{{gpu_uuid="{FIRST}",pipe="hmma"}}'] == 0.632
    assert new[f'gpu_process_memory_bytes{{gpu_uuid="{FIRST}",pid="10291"}}'] == 29605494784
    assert new[f'gpu_temperature_threshold_celsius{{gpu_uuid="{FIRST}",threshold="slowdown"}}'] == 90
    assert new[f'gpu_fabric_state{{gpu_uuid="{FIRST}",state="completed",status="0"}}'] == 1
    assert any('serial="165000000000"' in key for key in new)


def test_nvlink_counts_over_all_links(world, source, series):
    """By link on NVLink 5, where one link without an answer makes the sum absent and not smaller."""
    changes = {"gpu__0__field__138": "!3", "gpu__0__field__139": "!3"}
    for link in range(3):
        changes |= {
            f"gpu__0__nvlink__{link}__state": str(int(link != 1)),
            f"gpu__0__field__202__{link}": f"3:{100 * (link + 1)}",
            f"gpu__0__field__204__{link}": f"3:{link}",
            f"gpu__0__field__161__{link}": f"3:{link}",
        }
    # A field of link 0 has the scope 0, so the plain key would answer for every link.
    changes |= {"gpu__0__field__202": "-", "gpu__0__field__204": "-"}
    here = world(TWO, **changes)
    one = source(here)

    async def run():
        try:
            await one.read(5.0)
            whole = await one.read(5.0)
            here.become(TWO, **(changes | {"gpu__0__field__202__2": "!10"}))
            return series(whole.block), series((await one.read(5.0)).block)
        finally:
            await one.close()

    whole, without = asyncio.run(run())
    assert whole[f'gpu_nvlink_transmit_bytes_total{{gpu_uuid="{FIRST}"}}'] == 600
    assert whole[f'gpu_nvlink_receive_bytes_total{{gpu_uuid="{FIRST}"}}'] == 3
    assert whole[f'gpu_nvlink_errors_total{{error="replay",gpu_uuid="{FIRST}"}}'] == 3
    assert whole[f'gpu_nvlink_links{{gpu_uuid="{FIRST}",state="active"}}'] == 2
    assert whole[f'gpu_nvlink_links{{gpu_uuid="{FIRST}",state="inactive"}}'] == 1
    assert f'gpu_nvlink_transmit_bytes_total{{gpu_uuid="{FIRST}"}}' not in without
    assert f'gpu_nvlink_receive_bytes_total{{gpu_uuid="{FIRST}"}}' in without


def test_a_gpu_sliced_while_running(world, source, series):
    """MIG turned on: memory by instance from the next pass, and off again."""
    mig = {
        "gpu__0__mig_mode": "1",
        "gpu__0__mig_max": "7",
        "gpu__0__util__gpu": "!3",
        "gpu__0__gpm__gi5__10": "12.5",
        "gpu__0__mig__2__uuid": "MIG-1",
        "gpu__0__mig__2__name": "NVIDIA H200 MIG 1g.18gb",
        "gpu__0__mig__2__gi": "5",
        "gpu__0__mig__2__ci": "0",
        "gpu__0__mig__2__mem__total": "100",
        "gpu__0__mig__2__mem__used": "10",
    }
    here = world(TWO)
    one = source(here)

    async def run():
        results = []
        try:
            for changes in ({}, mig, {}):
                here.become(TWO, **changes)
                for _ in range(2):
                    reading = await one.read(5.0)
                    await asyncio.sleep(0.12)
                results.append(series(reading.block))
        finally:
            await one.close()
        return results

    before, sliced, after = asyncio.run(run())
    whole = f'gpu_memory_used_bytes{{gpu_uuid="{FIRST}"}}'
    instance = f'gpu_memory_used_bytes{{gpu_instance="5",gpu_uuid="{FIRST}"}}'
    assert whole in before and instance not in before
    assert whole not in sliced and sliced[instance] == 10
    assert sliced[f'gpu_dram_active_ratio{{gpu_instance="5",gpu_uuid="{FIRST}"}}'] == 0.125
    assert f'gpu_utilization_ratio{{gpu_uuid="{FIRST}"}}' not in sliced
    assert whole in after and instance not in after
    assert f'gpu_utilization_ratio{{gpu_uuid="{FIRST}"}}' in after
    assert here.at_end == "samples=0 events=0 initialised=0"
