"""Which source of GPUs: NVML, a page, a simulated one, or none."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from sidecar.gpu.allocation import Rule
from sidecar.gpu.nvml.source import NvmlSource
from sidecar.gpu.owners import Owners
from sidecar.gpu.pages.source import Fetch, PageSource
from sidecar.gpu.pod_resources import list_devices
from sidecar.gpu.reading import NO_READING, GpuReading, GpuSource

log = logging.getLogger(__name__)


class NoSource:
    """`none`: no library is ever loaded."""

    async def read(self, deadline: float) -> GpuReading:
        return NO_READING

    async def close(self) -> None:
        pass


class FirstOf:
    """`auto`: the first source that gives GPUs, in the order of trust.

    Once one did, only those before it are asked besides: counters of others start elsewhere. While none did,
    there is no GPU here, and nobody asked for one: no series at all.
    """

    def __init__(self, sources: Sequence[GpuSource]) -> None:
        self._sources = tuple(sources)
        self._found = False
        self._told = False

    async def read(self, deadline: float) -> GpuReading:
        failed: list[GpuReading] = []
        for source in self._sources:
            reading = await source.read(deadline)
            if reading.ok:
                await self._settle(source)
                return reading
            failed.append(reading)
        if self._found:
            return failed[-1]
        notes = tuple(note for reading in failed for note in reading.notes)
        if not self._told:
            self._told = True
            log.info("no GPU: %s", "; ".join(note.detail for note in notes if note.what == "collection"))
        return GpuReading(NO_READING.block, False, "none", 0.0, notes)

    async def _settle(self, source: GpuSource) -> None:
        self._found = True
        place = self._sources.index(source) + 1
        for other in self._sources[place:]:
            await other.close()
        self._sources = self._sources[:place]

    async def close(self) -> None:
        for source in self._sources:
            await source.close()


def open_source(
    source: str = "auto",
    *,
    interval: float = 10.0,
    url: str | None = None,
    devices: str | Sequence[str] = "auto",
    optional: Iterable[str] = (),
    targets: Sequence[str] = (),
    owners: Mapping[str, Sequence[str]] | None = None,
    pods: Mapping[str, str] | None = None,
    pod_resources_socket: str | os.PathLike[str] | None = None,
    runtime_urls: Sequence[str] = (),
    fetch: Fetch | None = None,
    environ: Mapping[str, str] = os.environ,
) -> GpuSource:
    """The source that the configuration asks for.

    `source`: auto, nvml, dcgm, amd, intel, none. `url` is the exporter's page, `fetch` the transport for
    pages: (URL, seconds) → body. `targets` are the configured targets' names; `owners` names devices by
    target, `pods` targets by `namespace/pod`. `runtime_urls` are pages of runtimes that tell of GPUs
    themselves (Triton, NIM): asked last, in `auto` only. Raises ValueError when a page lacks its URL.
    """
    rule = Rule(
        devices=devices if isinstance(devices, str) else tuple(devices),
        targets=tuple(targets),
        owners=owners or {},
        pods=pods or {},
        visible=environ.get("NVIDIA_VISIBLE_DEVICES", ""),
        pod=environ.get("POD_NAME", ""),
        namespace=environ.get("POD_NAMESPACE", ""),
    )
    optional = frozenset(optional)
    socket = pod_resources_socket
    kubelet = (lambda: list_devices(str(socket))) if socket is not None else None

    def owned() -> Owners:
        return Owners(rule, kubelet=kubelet)

    def page(address: str, kind: str) -> PageSource:
        if fetch is None:
            raise ValueError("a page needs a transport")
        return PageSource(fetch, address, owned(), source=kind, interval=interval, optional=optional)

    if source == "none":
        return NoSource()
    if source == "nvml":
        return NvmlSource(owned(), interval=interval, optional=optional)
    if source in ("dcgm", "amd", "intel"):
        if url is None:
            raise ValueError(f"gpu.source: {source} needs gpu.url, the page of its exporter")
        return page(url, source)
    if source != "auto":
        raise ValueError(f"unknown GPU source {source}")
    sources: list[GpuSource] = [NvmlSource(owned(), interval=interval, optional=optional, asked_for=False)]
    if url is not None:
        sources.append(page(url, "auto"))
    sources += [page(one, "auto") for one in runtime_urls]
    return FirstOf(sources)


async def collect(
    source: GpuSource, interval: float, deadline: float, publish: Callable[[GpuReading], None]
) -> None:
    """Read for ever, every `interval` seconds, and hand each reading to `publish`. Ends when cancelled."""
    clock = asyncio.get_running_loop().time
    due = clock()
    try:
        while True:
            publish(await source.read(deadline))
            due = max(due + interval, clock())
            await asyncio.sleep(due - clock())
    finally:
        await source.close()
