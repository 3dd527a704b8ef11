"""One scrape of a captured page through an adapter, without the rest of the line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any

import pytest

from sidecar.runtimes.adapter import Adapter, Answer
from sidecar.runtimes.binding import Binding
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import Block, Provenance, Series

BASE = {"target": "local"}


@dataclass
class Scrape:
    """What one scrape gave: values by signal and labels, where they come from."""

    adapter: Adapter
    binding: Binding
    block: Block

    def _series(self, signal: str, labels: dict[str, str]) -> Series | None:
        found = list(self.block.layout.find(signal, **labels))
        assert len(found) < 2, f"{signal} {labels}: {len(found)} series"
        return found[0] if found else None

    def get(self, signal: str, **labels: str) -> float:
        """A gauge or counter; NaN when it is absent."""
        series = self._series(signal, labels)
        return nan if series is None else self.block.values[series.start]

    def total(self, signal: str, **labels: str) -> float:
        """Sum over all series of a signal, as a fleet's query would have it."""
        return sum(
            self.block.values[one.count_index if one.bounds else one.start]
            for one in self.block.layout.find(signal, **labels)
        )

    def histogram(self, signal: str, **labels: str) -> tuple[float, float]:
        """(count, sum) of a histogram; NaN when it is absent."""
        series = self._series(signal, labels)
        if series is None:
            return nan, nan
        return self.block.values[series.count_index], self.block.values[series.sum_index]

    def bounds(self, signal: str, **labels: str) -> tuple[float, ...]:
        series = self._series(signal, labels)
        return () if series is None else series.bounds

    def has(self, signal: str, **labels: str) -> bool:
        """Whether any number of the signal is there."""
        return any(
            self.block.values[one.start] == self.block.values[one.start]
            for one in self.block.layout.find(signal, **labels)
        )

    def says(self, signal: str) -> Provenance:
        return next(record for record in self.binding.provenance if record.signal == signal)


def scrape_with(adapter: Adapter, *bodies: bytes, now: float = nan) -> Scrape:
    """One tick of an adapter."""
    reading = adapter.read({f"page{i}": Answer(200, body) for i, body in enumerate(bodies)}, now)
    adapter.observe(reading)
    binding, _ = adapter.bind(reading.shape, BASE | {"runtime": adapter.name})
    return Scrape(adapter, binding, Block(binding.layout, binding.evaluate(reading.values)))


@pytest.fixture
def adapter() -> Callable[..., Adapter]:
    """A new adapter that has learnt what its endpoints answered: JSON, bytes, or an Answer."""

    def make(runtime: str, answers: Mapping[str, Any] | None = None) -> Adapter:
        made = Registry().adapter(runtime)
        for name, answer in (answers or {}).items():
            if not isinstance(answer, Answer):
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                answer = Answer(200, body)
            made.learn(name, answer)
        return made

    return make


@pytest.fixture
def scrape() -> Callable[..., Scrape]:
    return scrape_with
