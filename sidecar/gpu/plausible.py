"""Ranges outside of which a number can't be true. What lies outside is absent: never clamped."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from sidecar.gpu.reading import GpuNote, Row

#: GPM and DCGM round up; a share may read a little over 1.
RATIO = (0.0, 1.005)

MAX_POWER = 10_000.0
LIMITS: dict[str, tuple[float, float]] = {
    "gpu_memory_total_bytes": (1.0, 2.0**50),
    "gpu_memory_used_bytes": (0.0, 2.0**50),
    "gpu_memory_free_bytes": (0.0, 2.0**50),
    "gpu_memory_reserved_bytes": (0.0, 2.0**50),
    "gpu_power_watts": (0.0, MAX_POWER),
    "gpu_power_limit_watts": (1.0, MAX_POWER),
    "gpu_energy_joules_total": (0.0, 1e13),  # 10 kW for 30 years
    "gpu_temperature_celsius": (-50.0, 200.0),
    "gpu_temperature_margin_celsius": (-100.0, 250.0),
    "gpu_temperature_threshold_celsius": (-100.0, 250.0),
    "gpu_clock_hertz": (0.0, 1e10),
    "gpu_clock_max_hertz": (0.0, 1e10),
    "gpu_performance_state": (0.0, 15.0),
    "gpu_pcie_transmit_bytes_per_second": (0.0, 1e12),
    "gpu_pcie_receive_bytes_per_second": (0.0, 1e12),
    "gpu_pcie_link_width": (0.0, 32.0),
    "gpu_pcie_link_generation": (0.0, 16.0),
}


def _possible(signal: str, value: float) -> bool:
    low, high = LIMITS.get(signal, RATIO if signal.endswith("_ratio") else (0.0, 2.0**64))
    return isfinite(value) and low <= value <= high


def plausible(rows: Iterable[Row]) -> tuple[list[Row], list[GpuNote]]:
    """The rows that can be true, and a note for each that can't.

    Beside each signal's own range: more memory used than there is drops all memory figures of that device,
    power over three times the board's limit drops the power.
    """
    possible, notes = [], []
    totals: dict[str, float] = {}
    limits: dict[str, float] = {}
    for one in rows:
        signal, labels, value = one
        if not _possible(signal, value):
            notes.append(_refuse(one))
            continue
        possible.append(one)
        if signal == "gpu_memory_total_bytes":
            totals[_place(labels)] = value
        elif signal == "gpu_power_limit_watts":
            limits[_place(labels)] = value
    overfull = {
        _place(labels)
        for signal, labels, value in possible
        if signal in ("gpu_memory_used_bytes", "gpu_memory_free_bytes")
        and value > totals.get(_place(labels), value)
    }
    kept = []
    for one in possible:
        signal, labels, value = one
        place = _place(labels)
        too_much = signal == "gpu_power_watts" and value > 3 * limits.get(place, value)
        if too_much or (place in overfull and signal.startswith("gpu_memory_") and signal.endswith("_bytes")):
            notes.append(_refuse(one))
        else:
            kept.append(one)
    return kept, notes


def _place(labels: tuple[tuple[str, str], ...]) -> str:
    return "/".join(value for name, value in labels if name in ("gpu_uuid", "gpu_instance"))


def _refuse(one: Row) -> GpuNote:
    signal, labels, value = one
    return GpuNote(dict(labels).get("gpu_uuid", ""), signal, "implausible", f"{value:g}")
