"""A target's GPUs in three figures, for the derived signals."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

from sidecar.gpu.energy import EnergyMeter, sole_owners
from sidecar.snapshot import Block, is_absent


@dataclass(frozen=True, slots=True)
class Figures:
    """How many GPUs a target has, the joules that they used since the sidecar started, and how full the fullest
    one's memory is. NaN: not known. A target with a part of a GPU has no count and no joules."""

    count: float = nan
    joules: float = nan
    memory_used_ratio: float = nan


UNKNOWN = Figures()


class TargetGpus:
    """Figures by target, from one reading to the next. `joules` never fall."""

    def __init__(self) -> None:
        self._meter = EnergyMeter()
        self._joules: dict[str, float] = {}
        self._figures: dict[str, Figures] = {}

    def update(self, block: Block) -> None:
        """Take a reading's block."""
        used = self._meter.update(block)
        for target, increment in used.items():
            self._joules[target] = self._joules.get(target, 0.0) + increment
        alone = list(sole_owners(block).values())
        found: dict[str, Figures] = {}
        for series in block.layout.find("gpu_allocation_info"):
            target = series.label("target")
            if target:
                full = _fullness(block, series.label("gpu_uuid"), series.label("gpu_instance"))
                before = found.get(target, UNKNOWN).memory_used_ratio
                found[target] = Figures(
                    float(alone.count(target)) if target in alone else nan,
                    self._joules[target] if target in used else nan,
                    full if is_absent(before) else max(before, full),
                )
        self._figures = found

    def of(self, target: str) -> Figures:
        return self._figures.get(target, UNKNOWN)


def _fullness(block: Block, uuid: str, instance: str) -> float:
    where = {"gpu_uuid": uuid, "gpu_instance": instance}
    total = block.get("gpu_memory_total_bytes", **where)
    return block.get("gpu_memory_used_bytes", **where) / total if total > 0 else nan
