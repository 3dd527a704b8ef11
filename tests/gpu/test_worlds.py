"""Every world of `cases/` through the real binding and the stand-in library, as `expected.json` says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

CASES = Path(__file__).parent / "cases"
EXPECTED = json.loads((CASES / "expected.json").read_text())
WORLDS = sorted(name for name in EXPECTED if name.endswith(".state"))

#: What describes the collection or the identity of a GPU, and isn't a reading of it.
NOT_READINGS = ("gpu_collect_", "gpu_info", "gpu_mig_info", "gpu_allocation_info", "gpu_devices", "gpu_up")

#: Readings in expected.json → what a note calls them.
NAMES = {"memory_v2": "gpu_memory_used_bytes", "memory_v1": "gpu_memory_used_bytes", "memory": "gpu_memory_"}


def without_empty(key: str) -> str:
    return key.replace('gpu_instance="",', "")


def readings(found):
    return {key: value for key, value in found.items() if not key.startswith(NOT_READINGS)}


async def twice(one):
    """The second of two readings: what GPM measures between two is in it."""
    try:
        await one.read(10.0)
        await asyncio.sleep(0.15)
        return await one.read(10.0)
    finally:
        await one.close()


def read_twice(one):
    return asyncio.run(twice(one))


@pytest.fixture(scope="module")
def readings_of(world_in, tmp_path_factory, source):
    """All worlds at once, each with its own child."""
    names = [name for name in WORLDS if not EXPECTED[name].get("hang")]
    folder = tmp_path_factory.mktemp("worlds")
    sources = [source(world_in(folder / name).become(name.removesuffix(".state"))) for name in names]

    async def run():
        return await asyncio.gather(*map(twice, sources))

    return dict(zip(names, asyncio.run(run()), strict=True))


def test_no_case_is_left_out():
    assert {path.name for path in CASES.glob("*.state")} == set(WORLDS)


@pytest.mark.parametrize("name", [name for name in WORLDS if not EXPECTED[name].get("hang")])
def test_world(name, readings_of, series):
    wanted = EXPECTED[name]
    reading = readings_of[name]
    found = series(reading.block)
    values = readings(found)
    unsupported = "only" in wanted

    assert reading.ok is (wanted["verdict"] in ("ok", "degraded") and not unsupported)
    assert found['gpu_collect_success{source="nvml"}'] == reading.ok
    for key in wanted.get("has", ()):
        assert without_empty(key) in found
    for part in wanted.get("hasnot", ()):
        if part == 'gpu_instance=""':
            leaves = [
                key for key in values if key.startswith(("gpu_memory_t", "gpu_memory_u", "gpu_processes"))
            ]
            assert leaves and all("gpu_instance" in key for key in leaves)
        elif part.startswith("GPU-"):
            assert not [key for key in values if part in key]
        else:
            assert not [key for key in values if part in key]
    for key, value in wanted.get("value", {}).items():
        assert found[without_empty(key)] == value
    if unsupported:
        assert not values
        assert [key for key in found if key.startswith("gpu_up")] == wanted["only"]
        assert reading.notes[0].reason == "unsupported"
    if wanted.get("series") == 0:
        assert not values and not reading.ok
    else:
        assert len(values) >= wanted.get("series", 0)
    reasons = {(note.what, note.reason) for note in reading.notes}
    for what, code in wanted.get("skip", {}).items():
        if what == "init":
            expected = {18: "mismatch", 9: "driver", 999: "unknown"}[code]
            assert reading.notes[0].reason == expected
            assert f"NVML {code}" in reading.notes[0].detail
        elif what == "handle 0":
            assert ("GPU 0", "lifecycle") in reasons
        else:
            name_of = NAMES.get(what, what)
            expected = {3: "not_supported", 4: "permission", "implausible": "implausible"}[code]
            assert [1 for one, reason in reasons if one.startswith(name_of) and reason == expected]


def test_zero_gpus_is_a_failed_collection(world, source, series):
    found = series(read_twice(source(world("s10_zero_gpus"))).block)
    assert found["gpu_devices"] == 0
    assert found['gpu_collect_success{source="nvml"}'] == 0


def test_a_hang_is_cut_at_the_deadline_and_recovered_from(world, source, series):
    here = world("s11_hang_power")
    one = source(here, start_deadline=0.5)

    async def run():
        try:
            hung = await one.read(0.3)
            here.become("s11_hang_power", delay_ms__nvmlDeviceGetPowerUsage="-")
            return hung, await one.read(5.0)
        finally:
            await one.close()

    hung, after = asyncio.run(run())
    assert not hung.ok and hung.notes[0].reason == "timeout"
    found = series(hung.block)
    assert found['gpu_collect_success{source="nvml"}'] == 0
    assert found['gpu_collect_errors_total{reason="timeout",source="nvml"}'] == 1
    assert (
        after.ok
        and series(after.block)['gpu_power_watts{gpu_uuid="GPU-00000000-1111-2222-3333-444444444444"}']
        == 627.4
    )


def test_the_driver_reload_shows_as_a_counter_reset(world, source, series):
    here = world("s16_energy_before")
    one = source(here)
    key = 'gpu_energy_joules_total{gpu_uuid="GPU-00000000-1111-2222-3333-444444444444"}'

    async def run():
        try:
            before = await one.read(5.0)
            here.become("s17_energy_after_reload")
            return series(before.block)[key], series((await one.read(5.0)).block)[key]
        finally:
            await one.close()

    assert asyncio.run(run()) == (4742776.0, 1.2)


@pytest.mark.parametrize("driver", ["535", "470"])
def test_older_drivers_lose_only_what_they_have_not(driver, world, source, series):
    """nvidia-ml-py has calls that an older driver hasn't: only the run-time error tells."""
    new = series(read_twice(source(world("s01_healthy_two_h200"))).block)
    old = series(read_twice(source(world("s01_healthy_two_h200", driver=driver))).block)
    lost = {key.partition("{")[0] for key in new.keys() - old.keys()}
    margin = {"gpu_temperature_margin_celsius"}
    gpm = {
        key.partition("{")[0] for key in new if "_active_" in key or "occupancy" in key or "per_second" in key
    }
    assert lost == (margin if driver == "535" else margin | gpm | {"gpu_memory_reserved_bytes"})
    temperature = 'gpu_temperature_celsius{gpu_uuid="GPU-00000000-1111-2222-3333-444444444444",sensor="gpu"}'
    assert old[temperature] == 52
    used = 'gpu_memory_used_bytes{gpu_uuid="GPU-00000000-1111-2222-3333-444444444444"}'
    # The older struct has the driver's part in used; that there is no reserved tells which it is.
    assert old[used] - new[used] == (0 if driver == "535" else 643825664)
