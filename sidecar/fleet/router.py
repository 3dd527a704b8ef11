"""The router before the replicas: the only one that knows of requests while there is no replica."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from sidecar.exposition import PageError, PageReader, Sample

_SELECTOR = re.compile(r"([A-Za-z_:][\w:.]*)(?:\{(.*)\})?", re.ASCII)
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"([^"]*)"\s*(?:,|$)', re.ASCII)
_WINDOW = 60.0


@dataclass(frozen=True, slots=True)
class Selector:
    """`name{label="value",…}`: the series of a name with those labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def takes(self, sample: Sample) -> bool:
        return sample.name == self.name and all(sample.label(key) == value for key, value in self.labels)


def selector(text: str) -> Selector:
    """Raises ValueError."""
    found = _SELECTOR.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'{text!r} is no metric: write it like name or name{{label="value"}}')
    inner = found[2] or ""
    labels = _LABEL.findall(inner)
    if _LABEL.sub("", inner).strip():
        raise ValueError(f'{text!r}: labels are written like {{label="value",other="value"}}')
    return Selector(found[1], tuple(labels))


@dataclass(frozen=True, slots=True)
class Seen:
    in_flight: float
    per_second: float


class Router:
    """Reads a router's page. `in_flight` selects gauges of requests that it holds or that are under way;
    `requests` a counter of all, whose rate tells the load."""

    def __init__(self, url: str, in_flight: Selector, requests: Selector | None = None) -> None:
        self.url = url
        self.error = ""
        self._in_flight, self._requests = in_flight, requests
        names = {one.name for one in (in_flight, requests) if one is not None}
        self._reader = PageReader(names.__contains__)
        self._value = 0.0
        self._read_at: float | None = None
        self._counts: deque[tuple[float, float]] = deque()

    def read(self, body: bytes, now: float) -> None:
        """Raises PageError, also when the metric isn't there: a router that was renamed mustn't read as idle."""
        reading = self._reader.read(body)
        pairs = list(zip(reading.shape.samples, reading.values, strict=True))
        found = [value for sample, value in pairs if self._in_flight.takes(sample)]
        if not found:
            raise PageError("not_metrics", f"no {self._in_flight.name} on the router's page")
        self._value, self._read_at, self.error = sum(found), now, ""
        if self._requests is None:
            return
        total = sum(value for sample, value in pairs if self._requests.takes(sample))
        if self._counts and total < self._counts[-1][1]:
            self._counts.clear()
        self._counts.append((now, total))
        while len(self._counts) > 2 and self._counts[1][0] <= now - _WINDOW:
            self._counts.popleft()

    def seen(self, now: float, stale_after: float) -> Seen | None:
        """None while its last page is too old."""
        if self._read_at is None or now - self._read_at > stale_after:
            return None
        rate = 0.0
        if len(self._counts) > 1:
            (then, before), (last, total) = self._counts[0], self._counts[-1]
            rate = (total - before) / (last - then) if last > then else 0.0
        return Seen(self._value, rate)
