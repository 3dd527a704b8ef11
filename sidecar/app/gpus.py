"""The GPUs at work: one source, read on its own schedule, exchanged when the config or what is known changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from math import inf

from sidecar.config import Gpu, Target
from sidecar.gpu.figures import TargetGpus
from sidecar.gpu.loss import LossWatch
from sidecar.gpu.reading import GpuReading, GpuSource
from sidecar.gpu.source import collect, open_source
from sidecar.signals import GpuFigures
from sidecar.snapshot import Block
from sidecar.targets.fetch import Fetcher

log = logging.getLogger(__name__)


class Gpus:
    """Reads the GPUs that the config names and tells their figures by target.

    `targets` and `runtime_pages` are asked whenever the source is opened: pages of runtimes that tell of GPUs
    themselves are the last resort of `auto`.
    """

    def __init__(
        self,
        publish: Callable[[Block], None],
        targets: Callable[[], Sequence[Target]],
        runtime_pages: Callable[[], list[str]],
        source: GpuSource | None = None,
        lost: Callable[[str], None] = lambda why: None,
    ) -> None:
        """`lost` is told why, when a GPU is gone for as long as `gpu.exit_on_loss` says."""
        self._publish = publish
        self._lost, self._loss = lost, LossWatch()
        self._exit_on_loss = inf
        self._targets = targets
        self._runtime_pages = runtime_pages
        self._given = source  # a demo's or a test's, instead of the config's
        self._figures = TargetGpus()
        self._fetcher = Fetcher("gpu")
        self._task: asyncio.Task[None] | None = None
        self._opened_for: tuple[object, ...] = ()
        self._exchange = asyncio.Lock()  # a reload and the regular look may meet

    def figures(self, target: str) -> GpuFigures:
        """What the derived signals need of a target's GPUs."""
        known = self._figures.of(target)
        return GpuFigures(known.count, known.joules, known.memory_used_ratio)

    async def use(self, config: Gpu) -> None:
        """Read by this config from now on; one that can't be used is told in the log, and the old one goes on."""
        self._exit_on_loss = config.exit_on_loss or inf
        async with self._exchange:
            await self._use(config)

    async def _use(self, config: Gpu) -> None:
        targets = tuple((one.name, one.gpus, one.pod) for one in self._targets())
        wanted = (config, targets, tuple(self._runtime_pages()))
        if wanted == self._opened_for:
            return
        self._opened_for = wanted
        try:
            source = self._given if self._given is not None else self._open(config)
        except ValueError as error:
            log.error("GPUs: %s", error)
            return
        await self.close()
        self._loss = LossWatch()
        interval = config.interval if self._given is None else min(config.interval, 2.0)
        self._task = asyncio.create_task(collect(source, interval, config.timeout, self._take))

    async def close(self) -> None:
        """Let the GPUs go: no driver stays loaded."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._fetcher.close()

    def _open(self, config: Gpu) -> GpuSource:
        return open_source(
            config.source,
            interval=config.interval,
            url=config.url,
            devices=config.devices,
            optional=config.optional,
            targets=[one.name for one in self._targets()],
            owners={one.name: one.gpus for one in self._targets() if one.gpus},
            pods={one.pod: one.name for one in self._targets() if one.pod is not None},
            pod_resources_socket=config.pod_resources_socket,
            runtime_urls=self._runtime_pages(),
            fetch=self._fetch,
        )

    async def _fetch(self, url: str, seconds: float) -> bytes:
        page = await self._fetcher.get(url, deadline=asyncio.get_running_loop().time() + seconds)
        return page.body

    def _take(self, reading: GpuReading) -> None:
        self._figures.update(reading.block)
        self._publish(reading.block)
        if why := self._loss.look(reading, time.monotonic(), self._exit_on_loss):
            self._lost(why)
