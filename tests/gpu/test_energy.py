"""Joules by target: resets, gaps, shared boards, other sources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.gpu.energy import EnergyMeter, sole_owners
from sidecar.gpu.figures import Figures, TargetGpus
from sidecar.snapshot import EMPTY_BLOCK, block_of, is_absent


def block(*, source="nvml", shared=(), **gpus):
    """Blocks of GPUs: `a=(joules, target)`."""
    rows = [("gpu_collect_success", {"source": source}, 1.0)]
    for uuid, (joules, target) in gpus.items():
        if joules is not None:
            rows.append(("gpu_energy_joules_total", {"gpu_uuid": uuid}, joules))
        if target:
            rows.append(("gpu_allocation_info", {"gpu_uuid": uuid, "target": target}, 1.0))
    return block_of([*rows, *shared])


def test_increments_of_a_targets_gpus_are_added_up():
    meter = EnergyMeter()
    assert meter.update(block(a=(10.0, "x"), b=(20.0, "x"), c=(5.0, "y"))) == {"x": 0.0, "y": 0.0}
    assert meter.update(block(a=(13.0, "x"), b=(24.0, "x"), c=(5.5, "y"))) == {"x": 7.0, "y": 0.5}


def test_a_reset_counts_from_0():
    meter = EnergyMeter()
    meter.update(block(a=(4742776.0, "x")))
    assert meter.update(block(a=(1.2, "x"))) == {"x": 1.2}


def test_a_gap_is_caught_up_with():
    meter = EnergyMeter()
    meter.update(block(a=(10.0, "x")))
    assert meter.update(block(a=(None, "x"))) == {}
    assert meter.update(block(a=(16.0, "x"))) == {"x": 6.0}


def test_what_was_used_before_it_was_the_targets_is_not_its():
    meter = EnergyMeter()
    meter.update(block(a=(10.0, "")))
    assert meter.update(block(a=(110.0, ""))) == {}
    assert meter.update(block(a=(112.0, "x"))) == {"x": 2.0}


def test_another_source_counts_from_elsewhere():
    meter = EnergyMeter()
    meter.update(block(source="triton", a=(900.0, "x")))
    assert meter.update(block(source="nvml", a=(4000.0, "x"))) == {"x": 0.0}
    assert meter.update(block(source="nvml", a=(4001.0, "x"))) == {"x": 1.0}


@pytest.mark.parametrize(
    "more",
    [
        {"gpu_uuid": "a", "target": "y"},
        {"gpu_uuid": "a", "pod": "other", "namespace": "ml"},
        {"gpu_uuid": "a", "gpu_instance": "1", "target": "x"},
    ],
)
def test_a_shared_board_is_nobodys(more):
    shared = block(a=(1.0, "x"), shared=[("gpu_allocation_info", more, 1.0)])
    assert sole_owners(shared) == {}
    meter = EnergyMeter()
    meter.update(shared)
    assert meter.update(shared) == {}


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=30))
def test_increments_are_never_negative_and_add_up_without_resets(steps):
    meter, total, added = EnergyMeter(), 0.0, 0.0
    meter.update(block(a=(0.0, "x")))
    for step in steps:
        total += step
        increment = meter.update(block(a=(total, "x")))["x"]
        assert increment >= 0
        added += increment
    assert added == pytest.approx(total)


def places(total, used, **labels):
    return [("gpu_memory_total_bytes", labels, total), ("gpu_memory_used_bytes", labels, used)]


def test_figures_of_a_target_with_two_gpus():
    gpus = TargetGpus()
    memory = [*places(100.0, 50.0, gpu_uuid="a"), *places(100.0, 80.0, gpu_uuid="b")]
    gpus.update(block(a=(10.0, "x"), b=(20.0, "x"), shared=memory))
    assert gpus.of("x") == Figures(2.0, 0.0, 0.8)
    gpus.update(block(a=(11.0, "x"), b=(None, "x"), shared=memory))  # b didn't tell its energy this time
    assert gpus.of("x").joules == 1.0
    gpus.update(block(a=(12.0, "x"), b=(25.0, "x"), shared=memory))
    assert gpus.of("x").joules == 7.0
    assert is_absent(gpus.of("y").count)


def test_figures_of_a_target_with_an_instance():
    gpus = TargetGpus()
    instance = {"gpu_uuid": "a", "gpu_instance": "2"}
    told = [*places(100.0, 25.0, **instance), ("gpu_allocation_info", {**instance, "target": "x"}, 1.0)]
    gpus.update(block(a=(10.0, ""), shared=told))
    found = gpus.of("x")
    assert is_absent(found.count) and is_absent(found.joules) and found.memory_used_ratio == 0.25


def test_figures_vanish_with_the_reading():
    gpus = TargetGpus()
    gpus.update(block(a=(10.0, "x")))
    gpus.update(EMPTY_BLOCK)
    assert is_absent(gpus.of("x").joules) and is_absent(gpus.of("x").count)
    gpus.update(block(a=(13.0, "x")))
    assert (gpus.of("x").count, gpus.of("x").joules) == (1.0, 3.0)
