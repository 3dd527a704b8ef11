"""CPU a page of each step of the line, beside prometheus_client's parser and generate_latest."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.pages import RANKS, lines_of, series
from sidecar.app import stages_of
from sidecar.config import load_bytes
from sidecar.exposition import PageReader
from sidecar.outputs.prometheus.page import Page
from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry

FOUR_SLOS = b"""
slos:
  - {name: ttft, signal: time_to_first_token, threshold: 1s, objective: 95%, period: 7d}
  - {name: itl, signal: inter_token_latency, threshold: 50ms, objective: 95%, period: 7d}
  - {name: e2e, signal: e2e_request_latency, threshold: 10s, objective: 95%, period: 7d}
  - {name: availability, signal: availability, objective: 99%, period: 7d}
"""


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    lines: int
    milliseconds: float
    peer: str = ""
    ratio: float | None = None


def best(work: Callable[[], object], *, least: int = 5, within: float = 0.6) -> float:
    """The fastest of several runs, in milliseconds of this process's CPU."""
    gc.collect()
    fastest, began, runs = float("inf"), time.perf_counter(), 0
    while runs < least or time.perf_counter() - began < within:
        start = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - start)
        runs += 1
    return fastest * 1e3


def each(pages: Sequence[bytes], step: Callable[[bytes], object], rounds: int = 5) -> float:
    """Mean CPU a page over all pages in turn, the fastest of several rounds, in milliseconds."""
    for page in pages:
        step(page)
    times = []
    for _ in range(rounds):
        start = time.process_time()
        for page in pages:
            step(page)
        times.append(time.process_time() - start)
    return min(times) / len(pages) * 1e3


class Line:
    """A whole target's line with four objectives, at a tick of two seconds."""

    def __init__(self) -> None:
        self.pipeline = TargetPipeline(
            Settings(max_series=100_000), Registry(), stages_of(load_bytes(FOUR_SLOS, "bench"))
        )
        self.mono = 0.0

    def tick(self, page: bytes) -> object:
        self.mono += 2.0
        return self.pipeline.feed({"metrics": Answer(200, page)}, time=1.7e9 + self.mono, mono=self.mono)


def measure(sizes: Sequence[int] = tuple(RANKS)) -> list[Row]:
    rows: list[Row] = []
    for size in sizes:
        rows += _size(series(RANKS[size], 8 if size > 5000 else 20))
    return rows


def _size(pages: list[bytes]) -> list[Row]:
    page, lines = pages[0], lines_of(pages[0])
    text = page.decode()
    peer_parse = best(lambda: list(text_string_to_metric_families(text)))
    rows = [Row("prometheus_client: parse", lines, peer_parse)]

    def beside(what: str, cost: float, peer: str, other: float) -> None:
        rows.append(Row(what, lines, cost, peer, cost / other))

    beside("read, first sight", best(lambda: PageReader().read(page)), "prometheus_client", peer_parse)
    reader = PageReader()
    beside("read, warm", each(pages, reader.read), "prometheus_client", peer_parse)
    adapter = Registry().adapter("vllm")
    reading = adapter.read({"metrics": Answer(200, page)}, 0.0)
    binding, _ = adapter.bind(reading.shape, {"target": "t", "runtime": "vllm"}, max_series=100_000)
    rows.append(
        Row(
            "map (evaluate the binding)",
            lines,
            best(lambda: binding.evaluate(reading.values, below_zero=reading.below_zero)),
        )
    )
    line = Line()
    beside("whole tick, warm (4 SLOs)", each(pages, line.tick), "prometheus_client", peer_parse)
    beside("whole tick, cold", best(lambda: Line().tick(page), least=3), "prometheus_client", peer_parse)
    rows += _render(pages, lines)
    return rows


def _render(pages: list[bytes], lines: int) -> list[Row]:
    line, page = Line(), Page()
    snapshots = [line.tick(one) for one in pages]
    blocks = [snapshot.blocks for snapshot in snapshots]  # type: ignore[attr-defined]
    out = page.render(blocks[-1])
    turn = iter(range(10**9))
    ours = best(lambda: page.render(blocks[next(turn) % len(blocks)]))
    registry = CollectorRegistry()
    registry.register(_Fixed(out))
    theirs = best(lambda: generate_latest(registry))
    return [
        Row(f"prometheus_client: generate_latest ({lines_of(out)} lines)", lines, theirs),
        Row("render after a change", lines, ours, "generate_latest", ours / theirs),
        Row("render, nothing new", lines, best(lambda: page.render(blocks[-1])), "generate_latest", 0.0),
    ]


class _Fixed:
    """A collector of families parsed once."""

    def __init__(self, page: bytes) -> None:
        self._families = list(text_string_to_metric_families(page.decode()))

    def collect(self) -> list[Metric]:
        return self._families
