"""What the derived signals need to know beside the snapshot, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import nan

#: The window that every term of the demand is taken over, in seconds. One for all: mixing them flaps.
WINDOW = 60.0
HORIZON = 600.0


@dataclass(frozen=True, slots=True)
class GapObjective:
    """An objective on the inter-token latency: at most `budget` of the gaps may exceed `threshold` seconds."""

    threshold: float
    budget: float
    models: tuple[str, ...] = ("*",)

    def covers(self, model: str) -> bool:
        return any(fnmatchcase(model, pattern) for pattern in self.models)


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """The replica's GPUs now: how many, their energy counters' sum, the fullest one's memory. NaN: not known."""

    count: float = nan
    joules: float = nan
    memory_used_ratio: float = nan


ReadGpus = Callable[[], GpuFigures]


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one target. `idle_gap` and `service_time` are seeds in seconds, used until they were measured; `gpus`
    counts where no GPU can be seen. None: not given."""

    target_utilisation: float = 0.9
    drain_target: float = 30.0
    gap_objectives: tuple[GapObjective, ...] = ()
    idle_gap: float | None = None
    service_time: float | None = None
    gpus: float | None = None
    gaps_from_tokens: bool = True  # where a runtime tells none: request-seconds executed over tokens
    gpu_hour_price: float | None = None
    currency: str = "USD"

    def gap_objective(self, model: str) -> GapObjective | None:
        """The strictest one of a model."""
        covering = [one for one in self.gap_objectives if one.covers(model)]
        return min(covering, key=lambda one: one.threshold, default=None)
