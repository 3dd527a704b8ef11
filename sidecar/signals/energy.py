"""Energy and cost of a replica: counters, so that a token's share is a ratio of rates."""

from __future__ import annotations

from math import nan

from sidecar.signals.formula import Formula, Way
from sidecar.signals.settings import GpuFigures

ENERGY = Formula("energy_joules_total", (Way(("gpu_energy_joules_total",), "gpu_energy_joules_total"),))
COST = Formula(
    "cost_total",
    (
        Way(("gpu_info", "cost.gpu_hour_price"), "GPU-hours · cost.gpu_hour_price"),
        Way(
            ("targets.capacity.gpus", "cost.gpu_hour_price"), "GPU-hours of the config · cost.gpu_hour_price"
        ),
    ),
)


class Meter:
    """Counts what the replica's GPUs have used and cost since the sidecar started, whether or not the runtime
    answers: an idle GPU is paid for too. NaN while its figure isn't known.
    """

    __slots__ = ("_cost", "_joules", "_mono", "_price", "_used", "cost", "joules")

    def __init__(self, gpu_hour_price: float | None) -> None:
        self._price = gpu_hour_price
        self._mono = nan
        self._joules = nan
        self._used = self._cost = 0.0
        self.joules = self.cost = nan

    def feed(self, mono: float, gpus: GpuFigures) -> None:
        """`gpus` are the figures at `mono`. Energy that falls was counted anew: the driver was reloaded."""
        joules = gpus.joules
        if joules == joules:
            if self._joules == self._joules:
                self._used += joules - self._joules if joules >= self._joules else joules
            self._joules = joules
        self.joules = self._used if joules == joules else nan
        if self._price is not None:
            if mono > self._mono and gpus.count == gpus.count:
                self._cost += (mono - self._mono) / 3600.0 * gpus.count * self._price
            self.cost = self._cost if gpus.count == gpus.count else nan
        self._mono = mono
