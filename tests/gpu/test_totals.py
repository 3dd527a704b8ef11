"""Sums never double: what a user adds up is what there is."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from sidecar.gpu.pages import read

FIRST = "GPU-00000000-1111-2222-3333-444444444444"


def totals(found):
    sums = defaultdict(float)
    for key, value in found.items():
        sums[key.partition("{")[0]] += value
    return sums


def page(*rows):
    return "".join(f"{row}\n" for row in rows).encode()


def test_two_gpus_by_nvml(world, source, series):
    one = source(world("s01_healthy_two_h200"))

    async def run():
        try:
            return await one.read(5.0)
        finally:
            await one.close()

    sums = totals(series(asyncio.run(run()).block))
    assert sums["gpu_memory_used_bytes"] == 2 * 33934016512
    assert sums["gpu_memory_total_bytes"] == 2 * 150754820096
    assert sums["gpu_power_watts"] == 2 * 627.4
    assert sums["gpu_energy_joules_total"] == 2 * 4742776.0
    assert sums["gpu_info"] == sums["gpu_devices"] == 2


def test_mig_by_nvml_with_two_compute_instances_of_one_gpu_instance(world, source, series):
    """Compute instances share their GPU instance's memory; the board's watts are not the instances'."""
    second = {
        "gpu__0__mig__1__name": "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb",
        "gpu__0__mig__1__uuid": "MIG-second-compute-instance",
        "gpu__0__mig__1__gi": "2",
        "gpu__0__mig__1__ci": "1",
        "gpu__0__mig__1__mem__total": "20937965568",
        "gpu__0__mig__1__mem__used": "4596957184",
    }
    one = source(world("s05_mig_sparse", **second))

    async def run():
        try:
            return await one.read(5.0)
        finally:
            await one.close()

    found = series(asyncio.run(run()).block)
    sums = totals(found)
    assert sums["gpu_memory_total_bytes"] == 20937965568 + 5368709120
    assert sums["gpu_memory_used_bytes"] == 4596957184 + 6291456
    assert sums["gpu_power_watts"] == 627.4
    assert sums["gpu_energy_joules_total"] == 4742776.0
    assert sums["gpu_mig_info"] == 3


def test_time_slicing_repeats_a_gpu_once_a_pod(series):
    labels = 'gpu="0",UUID="GPU-1"'
    rows = [
        f'{name}{{{labels},pod="{pod}",namespace="ml",container="e"}} {value}'
        for pod in ("a", "b", "c")
        for name, value in (
            ("DCGM_FI_DEV_POWER_USAGE", 400),
            ("DCGM_FI_DEV_FB_USED", 1000),
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 9000),
            ("DCGM_FI_PROF_SM_ACTIVE", 0.5),
        )
    ]
    sums = totals(series(read(page(*rows))))
    assert sums["gpu_power_watts"] == 400
    assert sums["gpu_memory_used_bytes"] == 1000 * 2**20
    assert sums["gpu_energy_joules_total"] == 9
    assert sums["gpu_sm_active_ratio"] == 0.5


def test_mig_rows_repeat_the_board(series):
    """Power on the parent and on both instances; memory and activity of the instances beside the parent's."""
    rows = []
    for extra in ("", ',GPU_I_ID="1",GPU_I_PROFILE="3g.20gb"', ',GPU_I_ID="2",GPU_I_PROFILE="1g.5gb"'):
        labels = f'gpu="0",UUID="GPU-1"{extra}'
        rows += [
            f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 300",
            f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} 5000",
            f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1400",
            f"DCGM_FI_DEV_FB_USED{{{labels}}} {50 if extra else 100}",
            f"DCGM_FI_PROF_DRAM_ACTIVE{{{labels}}} 0.25",
        ]
    sums = totals(series(read(page(*rows))))
    assert sums["gpu_power_watts"] == 300
    assert sums["gpu_energy_joules_total"] == 5
    assert sums["gpu_clock_hertz"] == 1.4e9
    assert sums["gpu_memory_used_bytes"] == 100 * 2**20
    assert sums["gpu_dram_active_ratio"] == 0.5
    assert sums["gpu_mig_info"] == 2


def test_partitions_of_an_amd_board(series):
    """Both the primary partition's watts and the zeros of the others are one board's."""
    rows = []
    for partition in range(4):
        labels = f'gpu_id="{partition}",gpu_partition_id="{partition}",gpu_compute_partition_type="qpx",'
        labels += 'serial_number="S"'
        rows += [
            f"gpu_package_power{{{labels}}} {600 if partition == 0 else 0}",
            f"gpu_energy_consumed{{{labels}}} {7e6 if partition == 0 else 0}",
            f"gpu_used_vram{{{labels}}} 10",
        ]
    sums = totals(series(read(page(*rows))))
    assert sums["gpu_power_watts"] == 600
    assert sums["gpu_energy_joules_total"] == 7
    assert sums["gpu_memory_used_bytes"] == 40 * 2**20
