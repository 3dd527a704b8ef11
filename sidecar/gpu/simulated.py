"""Simulated GPUs for the demo: made-up answers of the NVML child, converted as real ones are."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from sidecar.gpu.allocation import Rule
from sidecar.gpu.collection import Collection
from sidecar.gpu.nvml.convert import convert
from sidecar.gpu.owners import Owners
from sidecar.gpu.reading import GpuReading, row

MEMORY = 80 << 30
IDLE_MW, LIMIT_MW = 70_000, 700_000


class SimulatedSource:
    """GPUs that say in `gpu_info` that they are simulated. `load` gives the load of each, 0 to 1."""

    def __init__(
        self,
        load: Callable[[], Sequence[float]],
        *,
        target: str = "local",
        interval: float = 10.0,
        wall: Callable[[], float] = time.time,
        mono: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._owners = Owners(Rule(devices="all", targets=(target,)))
        self._collection = Collection("simulated", 3 * interval)
        self._wall, self._mono = wall, mono
        self._last = mono()
        self._energy: list[float] = []
        self._heat: list[float] = []

    async def read(self, deadline: float) -> GpuReading:
        began = self._mono()
        loads = [min(1.0, max(0.0, one)) for one in self._load()]
        elapsed, self._last = began - self._last, began
        found = convert({"system": {"host_pids": False}, "gpus": self._gpus(loads, elapsed)})
        rows = [*found.rows, row("gpu_devices", float(len(loads)))]
        rows = self._owners.shown(rows, await self._owners.allocation(found.leaves))
        now = self._mono()
        return self._collection.good(rows, time=self._wall(), mono=now, took=now - began, up=found.up)

    def _gpus(self, loads: Sequence[float], elapsed: float) -> list[dict[str, Any]]:
        for _ in range(len(self._energy), len(loads)):
            self._energy.append(0.0)
            self._heat.append(35.0)
        return [self._gpu(i, load, elapsed) for i, load in enumerate(loads)]

    def _gpu(self, index: int, load: float, elapsed: float) -> dict[str, Any]:
        power = IDLE_MW + load * 0.9 * (LIMIT_MW - IDLE_MW)
        self._energy[index] += power * elapsed
        warmth = 35 + 40 * load
        self._heat[index] += (warmth - self._heat[index]) * min(1.0, elapsed / 30)
        used = int(MEMORY * (0.02 if load == 0 else 0.9))
        return {
            "index": index,
            "uuid": f"GPU-51a10000-0000-0000-0000-{index:012d}",
            "facts": {
                "name": "Simulated GPU (demo)",
                "vendor": "simulated",
                "clock_max_sm": 1980,
                "reasons_supported": 0x65,
            },
            "read": {
                "utilization": round(100 * min(1.0, 1.2 * load)),
                "memory_busy": round(60 * load),
                "power": round(power),
                "power_limit": LIMIT_MW,
                "energy": round(self._energy[index]),
                "temperature": round(self._heat[index]),
                "clock_sm": 345 if load == 0 else 1980,
                "reasons": 0x1 if load == 0 else 0,
                "memory": [MEMORY, used, MEMORY - used, 0],
                "gpm": {"1": 100 * load, "2": 95 * load, "3": 40 * load, "5": 45 * load, "10": 70 * load},
            },
            "codes": {},
        }

    async def close(self) -> None:
        """Nothing is held."""
