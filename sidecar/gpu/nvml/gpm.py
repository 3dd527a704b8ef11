"""GPM: activity of the SMs, tensor pipes and memory between two passes (Hopper and newer)."""

from __future__ import annotations

from sidecar.gpu.nvml.asker import LOST, LostGpu, code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Graphics, SM, occupancy, tensor, DRAM, PCIe out, PCIe in.
METRICS = (1, 2, 3, 5, 10, 20, 21)
#: Opt-in: integer, dfma, hmma, imma, fp64, fp32, fp16.
PIPES = (4, 6, 7, 9, 11, 12, 13)

SHORTEST_WINDOW = 0.1


class GpmWindow:
    """Two samples of one GPU or GPU instance: the last pass's and this one's, swapped at each pass.

    They are allocated once. NVML's samples must never be touched from two threads: the pass owns them.
    """

    def __init__(self, nvml: Any, handle: Any, instance: int | None, clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._handle = handle
        self._instance = instance
        self._clock = clock
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        self._taken = 0.0

    def read(self, metrics: tuple[int, ...]) -> dict[str, float]:
        """Values by metric id since the last read; none at the first one. Raises LostGpu, NVMLError."""
        former, new = self._samples
        now = self._clock()
        if self._taken and now - self._taken < SHORTEST_WINDOW:
            return {}
        try:
            if self._instance is None:
                self._nvml.nvmlGpmSampleGet(self._handle, new)
            else:
                self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, new)
        except Exception as error:
            self._taken = 0.0
            if code_of(error) in LOST:
                raise LostGpu(code_of(error)) from None
            raise
        first, self._taken = not self._taken, now
        self._samples = [new, former]
        return {} if first else self._between(former, new, metrics)

    def _between(self, former: Any, new: Any, metrics: tuple[int, ...]) -> dict[str, float]:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(metrics)
        request.sample1, request.sample2 = former, new
        for slot, metric in zip(request.metrics, metrics, strict=False):
            slot.metricId = metric
        self._nvml.nvmlGpmMetricsGet(request)
        answers = request.metrics[: len(metrics)]
        # NaN is no JSON, and what NVML means by it is that the value is not there.
        return {
            str(one.metricId): one.value for one in answers if not one.nvmlReturn and one.value == one.value
        }

    def free(self) -> None:
        for sample in self._samples:
            try:
                self._nvml.nvmlGpmSampleFree(sample)
            except Exception:  # the driver is going away; so is the process
                pass
