"""Units, ranges, layouts: the pure pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gpu.collection import Blocks, Collection
from sidecar.gpu.nvml.convert import convert
from sidecar.gpu.plausible import LIMITS, plausible
from sidecar.gpu.reading import OPTIONAL, REASONS, bus_id, row, scaled
from sidecar.schema import SIGNALS

GPU_SIGNALS = [name for name in SIGNALS if name.startswith("gpu_")]


def answer(read=(), facts=(), fields=(), **entry):
    gpu = {
        "index": 0,
        "uuid": "U",
        "facts": {"name": "G", **dict(facts)},
        "read": {"fields": dict(fields), **dict(read)},
        "codes": {},
    }
    return {"system": {"driver": "1"}, "gpus": [gpu | entry]}


@pytest.mark.parametrize(
    ("where", "name", "native", "series", "value"),
    [
        ("read", "power", 627400, ("gpu_power_watts", {}), 627.4),
        ("read", "power_limit", 700000, ("gpu_power_limit_watts", {}), 700.0),
        ("read", "energy", 4742776000, ("gpu_energy_joules_total", {}), 4742776.0),
        ("read", "utilization", 41, ("gpu_utilization_ratio", {}), 0.41),
        ("read", "memory_busy", 7, ("gpu_memory_controller_busy_ratio", {}), 0.07),
        ("read", "temperature", 52, ("gpu_temperature_celsius", {"sensor": "gpu"}), 52.0),
        ("read", "clock_sm", 1980, ("gpu_clock_hertz", {"clock": "sm"}), 1.98e9),
        ("facts", "clock_max_mem", 3201, ("gpu_clock_max_hertz", {"clock": "memory"}), 3.201e9),
        ("read", "pcie_kbps_0", 1215000, ("gpu_pcie_transmit_bytes_per_second", {}), 1.215e9),
        ("fields", "82", 40, ("gpu_temperature_celsius", {"sensor": "memory"}), 40.0),
        ("fields", "138", 5000, ("gpu_nvlink_transmit_bytes_total", {}), 5120000.0),
        ("fields", "197", 123, ("gpu_pcie_transmit_bytes_total", {}), 123.0),
        ("fields", "74", 1_500_000_000, ("gpu_clock_limited_seconds_total", {"reason": "power_cap"}), 1.5),
        ("fields", "4", 3, ("gpu_ecc_errors_total", {"severity": "uncorrected"}), 3.0),
    ],
)
def test_each_conversion(where, name, native, series, value):
    signal, labels = series
    found = {(one[0], one[1]): one[2] for one in convert(answer(**{where: {name: native}})).rows}
    assert found[signal, tuple({"gpu_uuid": "U", **labels}.items())] == value


def test_gpm_is_in_percent_and_mebibytes():
    read = {"gpm": {"2": 98.1, "20": 2.0, "7": 50.0}}
    found = {one[0]: one[2] for one in convert(answer(read)).rows}
    assert found["gpu_sm_active_ratio"] == 0.981
    assert found["gpu_pcie_transmit_bytes_per_second"] == 2 * 2**20
    assert found["gpu_pipe_active_ratio"] == 0.5


@pytest.mark.parametrize(
    ("signal", "value"),
    [
        ("gpu_utilization_ratio", 8083349.05),
        ("gpu_sm_active_ratio", 1.01),
        ("gpu_power_watts", 3.7e6),
        ("gpu_power_watts", -1.0),
        ("gpu_energy_joules_total", 1.8e16),
        ("gpu_temperature_celsius", 2147483632.0),
        ("gpu_clock_hertz", 4.29e15),
        ("gpu_performance_state", 32.0),
        ("gpu_memory_free_bytes", 2.0**64 - 1000),
        ("gpu_processes", float("nan")),
        ("gpu_nvlink_receive_bytes_total", float("inf")),
    ],
)
def test_what_cannot_be_is_absent(signal, value):
    kept, notes = plausible([row(signal, value, gpu_uuid="U")])
    assert kept == [] and [(note.gpu, note.what, note.reason) for note in notes] == [
        ("U", signal, "implausible")
    ]


def test_power_far_over_the_boards_limit_is_absent():
    rows = [row("gpu_power_watts", 2101.0, gpu_uuid="U"), row("gpu_power_limit_watts", 700.0, gpu_uuid="U")]
    kept, notes = plausible(rows)
    assert [one[0] for one in kept] == ["gpu_power_limit_watts"] and len(notes) == 1


def test_more_memory_used_than_there_is_drops_that_instance_only():
    def sizes(instance, total, used):
        place = {"gpu_uuid": "U", "gpu_instance": instance}
        return [row("gpu_memory_total_bytes", total, **place), row("gpu_memory_used_bytes", used, **place)]

    kept, _ = plausible([*sizes("1", 10.0, 20.0), *sizes("2", 10.0, 5.0)])
    assert {dict(labels)["gpu_instance"] for _, labels, _ in kept} == {"2"} and len(kept) == 2


@given(st.sampled_from(GPU_SIGNALS), st.floats(allow_nan=True, allow_infinity=True))
def test_a_value_is_kept_as_it_is_or_not_at_all(signal, value):
    kept, notes = plausible([row(signal, value, gpu_uuid="U")])
    assert len(kept) + len(notes) == 1
    assert all(one[2] == value for one in kept)


def test_limits_and_opt_ins_name_signals():
    assert set(LIMITS) <= set(GPU_SIGNALS) and set(GPU_SIGNALS) >= OPTIONAL


@given(st.integers(0, 100))
def test_a_percentage_is_its_hundredth(percent):
    assert scaled(percent, 0.01) == percent / 100


@pytest.mark.parametrize(
    ("text", "short"),
    [("00000000:83:00.0", "0000:83:00.0"), ("0000000F:01:00.0", "000f:01:00.0"), ("", ""), ("x", "x")],
)
def test_bus_ids(text, short):
    assert bus_id(text) == short


def test_a_layout_stays_the_same_while_the_series_do():
    blocks = Blocks()
    rows = [row("gpu_up", 1.0, gpu_uuid="b"), row("gpu_up", 1.0, gpu_uuid="a")]
    first, second = blocks.block(rows), blocks.block(reversed(rows))
    assert first.layout is second.layout
    assert blocks.block(rows[:1]).layout is not first.layout


def test_reasons_of_errors_are_bounded():
    collection = Collection("nvml", 30.0)
    for reason in REASONS:
        reading = collection.bad(reason, "", mono=0.0, took=0.0)
    errors = list(reading.block.layout.find("gpu_collect_errors_total"))
    assert {one.label("reason") for one in errors} == set(REASONS) and len(errors) == 12
    assert all(reading.block.values[one.start] == 1 for one in errors)
