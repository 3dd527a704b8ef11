"""GPUs at work: sources are exchanged, never doubled."""

from __future__ import annotations

import asyncio

from sidecar.app.gpus import Gpus
from sidecar.config import Gpu
from sidecar.gpu.reading import GpuReading
from sidecar.gpu.simulated import SimulatedSource


class Counted(SimulatedSource):
    """Simulated GPUs that take a moment to let go, as a driver's process does."""

    open = 0

    async def read(self, deadline: float) -> GpuReading:
        self.open += 1
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.01)
            self.open -= 1
        raise AssertionError


def test_two_exchanges_at_once_leave_one_source() -> None:
    async def story() -> None:
        source = Counted(lambda: [0.5])
        gpus = Gpus(lambda block: None, list, list, source)
        await gpus.use(Gpu(interval=1.0))
        await asyncio.sleep(0.01)
        await asyncio.gather(*(gpus.use(Gpu(interval=interval)) for interval in (2.0, 3.0, 4.0)))
        await asyncio.sleep(0.05)
        assert source.open == 1
        await gpus.close()
        assert source.open == 0

    asyncio.run(story())
