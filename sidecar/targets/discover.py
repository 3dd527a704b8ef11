"""Finds runtimes on this host when no target is configured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from yarl import URL

from sidecar.exposition import peek_families
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.detection import PROBES, Detector
from sidecar.targets.failure import FetchError
from sidecar.targets.fetch import Fetcher

#: Where runtimes usually serve their metrics: vLLM and NIM 8000, Triton 8002, SGLang 30000, KServe 8080,
#: TGI and BentoML 3000, others 9000. TensorRT-LLM's /metrics drains rows: its other page comes first.
CANDIDATES: tuple[str, ...] = (
    "http://127.0.0.1:8000/prometheus/metrics",
    "http://127.0.0.1:8000/v1/metrics",
    "http://127.0.0.1:8000/metrics",
    "http://127.0.0.1:8002/metrics",
    "http://127.0.0.1:30000/metrics",
    "http://127.0.0.1:8080/metrics",
    "http://127.0.0.1:3000/metrics",
    "http://127.0.0.1:9000/metrics",
)


@dataclass(frozen=True, slots=True)
class Found:
    """One look at one address: a runtime, or why there is none."""

    url: str
    runtime: str
    reason: str


async def look(detector: Detector, within: float, candidates: Sequence[str] = CANDIDATES) -> list[Found]:
    """Look at every candidate, side by side; in their order."""
    async with Fetcher("discovery") as fetcher:
        deadline = asyncio.get_running_loop().time() + within
        found = await asyncio.gather(*(_look(detector, fetcher, url, deadline) for url in candidates))
    nim = next((one for one in found if one.runtime == "nim"), None)
    return [_part_of(nim, one) for one in found]


def _part_of(nim: Found | None, one: Found) -> Found:
    """A Triton beside a NIM runs inside of it: the NIM's adapter reads its page, too."""
    if nim is None or one.runtime != "triton" or URL(one.url).host != URL(nim.url).host:
        return one
    return Found(one.url, "", f"the Triton inside the NIM at {nim.url}")


async def _look(detector: Detector, fetcher: Fetcher, url: str, deadline: float) -> Found:
    try:
        page = await fetcher.get(url, deadline=deadline)
    except FetchError as error:
        return Found(url, "", f"{error.result}")
    name = next((probe.name for probe in PROBES if URL(url).path == probe.path), "")
    found = detector.detect(peek_families(page.body), {name: Answer(page.status, page.body)})
    return Found(url, found.runtime, found.reason)
