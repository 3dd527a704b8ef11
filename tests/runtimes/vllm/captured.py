"""Captured vLLM pages and time series, and the line that they go through."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from math import nan
from pathlib import Path

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.schema import Kind
from sidecar.snapshot import Block, Series, Snapshot

HERE = Path(__file__).parent
PAGES = HERE / "pages"
GOLDEN = HERE / "golden"


def page(name: str) -> bytes:
    return (PAGES / f"{name}.txt").read_bytes()


def series(name: str) -> list[bytes]:
    """The pages of a time series, one second apart where nothing else is said."""
    return [gzip.decompress(file.read_bytes()) for file in sorted((HERE / "series" / name).glob("*.txt.gz"))]


def step(name: str) -> bytes:
    """The page before or after one action."""
    return gzip.decompress((HERE / "series" / "steps" / f"{name}.txt.gz").read_bytes())


def version_of(name: str) -> str:
    """Version of a page made from a release's definitions; empty for the others."""
    return name.removeprefix("v") if name.startswith("v") else ""


def pipeline(version: str = "", **settings: object) -> TargetPipeline:
    made = TargetPipeline(Settings(runtime="vllm", **settings), Registry())  # type: ignore[arg-type]
    if version:
        made.pin_version(version)
    return made


def replay(line: TargetPipeline, bodies: Iterable[bytes], start: float = 0.0) -> list[Snapshot]:
    """Feed pages one second apart."""
    return [
        line.feed({"metrics": Answer(200, body)}, time=1.8e9 + start + second, mono=start + second)
        for second, body in enumerate(bodies)
    ]


def read(body: bytes, version: str = "", **settings: object) -> Snapshot:
    """One page through a new line."""
    (snapshot,) = replay(pipeline(version, **settings), [body])
    assert snapshot.up, snapshot.reasons
    return snapshot


def captured(name: str, **settings: object) -> Snapshot:
    return read(page(name), version_of(name), **settings)


def count_and_sum(block: Block, signal: str, **labels: str) -> tuple[float, float]:
    """(observations, their sum) of a histogram; NaN when it is absent."""
    for one in block.layout.find(signal, **labels):
        return block.values[one.count_index], block.values[one.sum_index]
    return nan, nan


def numbers(block: Block) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, ...]]:
    """Everything that a block says: by signal and labels, a histogram's bounds among its numbers."""
    return {
        (one.signal.name, one.labels): (*one.bounds, *block.values[one.start : one.start + one.width])
        for one in block.layout.series
        if _present(block, one)
    }


def _present(block: Block, one: Series) -> bool:
    place = one.count_index if one.signal.kind is Kind.HISTOGRAM else one.start
    return block.values[place] == block.values[place]


def covered(snapshot: Snapshot) -> dict[str, str]:
    """Signals that are there, with their method."""
    return {one.signal: one.method.value for one in snapshot.provenance if one.status.value == "ok"}
