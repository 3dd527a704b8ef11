"""A publication as OTLP metrics: counters and histograms cumulative, buckets with the runtime's own bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)
from prometheus_client import Metric as OwnFamily

from sidecar.outputs.otlp.names import Attributes, Name, attributes_of, dotted, is_cumulative, name_of
from sidecar.outputs.otlp.starts import Starts
from sidecar.outputs.prometheus.text import SeriesKey, series_key, valid_labels
from sidecar.schema import Kind
from sidecar.snapshot import Block, Layout, Publication, Series, is_absent

_CUMULATIVE = AggregationTemporality.CUMULATIVE


@dataclass(frozen=True, slots=True)
class _Row:
    """One series, compiled once for its layout."""

    series: Series
    name: Name
    attributes: Attributes
    key: SeriesKey


@dataclass(slots=True)
class _Family:
    name: Name
    kind: Kind
    description: str
    numbers: list[NumberDataPoint] = field(default_factory=list)
    histograms: list[HistogramDataPoint] = field(default_factory=list)

    def metric(self) -> Metric:
        data: Gauge | Sum | Histogram
        if self.kind is Kind.HISTOGRAM:
            data = Histogram(self.histograms, _CUMULATIVE)
        elif self.kind is Kind.COUNTER or self.name.adds:
            data = Sum(self.numbers, _CUMULATIVE, is_monotonic=self.kind is Kind.COUNTER)
        else:
            data = Gauge(self.numbers)
        return Metric(self.name.name, self.description, self.name.unit, data)


class Converter:
    """`servers` gives the targets' URLs; `began` is this process' start, Unix seconds."""

    def __init__(self, servers: Callable[[], dict[str, str]], began: float) -> None:
        self._servers = servers
        self._starts = Starts(began)
        self._compiled: dict[int, tuple[Layout, tuple[_Row, ...]]] = {}

    def metrics(self, publication: Publication, own: Iterable[OwnFamily] = ()) -> list[Metric]:
        """Everything of `/metrics` that can be said over OTLP; absent values are left out, and of the same
        series in two blocks the first counts.
        """
        families: dict[str, _Family] = {}
        seen: set[SeriesKey] = set()
        used: dict[int, tuple[Layout, tuple[_Row, ...]]] = {}
        servers = self._servers()
        for block, time, began in self._blocks(publication):
            rows = self._rows(block.layout, servers)
            used[id(block.layout)] = (block.layout, rows)
            for row in rows:
                if row.key not in seen:
                    seen.add(row.key)
                    self._add(families, row, block, time, began)
        self._compiled = used
        self._starts.sweep({one.target for one in publication.snapshots})
        told = (one.metric() for one in families.values() if one.numbers or one.histograms)
        return [*told, *self._own(own, publication.time)]

    def _blocks(self, publication: Publication) -> Iterator[tuple[Block, float, float | None]]:
        """Each block, the time of its values, and since when its counters count, None where nobody tells."""
        for snapshot in publication.snapshots:
            yield snapshot.data, snapshot.time, self._starts.of_runtime(snapshot)
            for block in (snapshot.life, *snapshot.extra):
                yield block, snapshot.time, self._starts.of_own()
        for block in publication.shared:
            yield block, publication.time, None

    def _rows(self, layout: Layout, servers: dict[str, str]) -> tuple[_Row, ...]:
        kept = self._compiled.get(id(layout))
        if kept is not None and kept[0] is layout:
            return kept[1]
        return tuple(
            _Row(
                one,
                name_of(one.signal),
                attributes_of(one.signal, one.labels, layout, servers),
                series_key(one),
            )
            for one in layout.series
            if valid_labels(one)
        )

    def _add(
        self, families: dict[str, _Family], row: _Row, block: Block, time: float, began: float | None
    ) -> None:
        signal = row.series.signal
        value = block.values[row.series.count_index if row.series.bounds else row.series.start]
        if is_absent(value):
            return
        if not is_cumulative(signal):
            began = time
        elif began is None:
            began = self._starts.of_other(row.key, value, time)
        family = families.get(row.name.name)
        if family is None:
            family = families[row.name.name] = _Family(row.name, signal.kind, signal.help)
        if signal.kind is not Kind.HISTOGRAM:
            family.numbers.append(_number(row.attributes, began, time, value))
        elif (point := _histogram(row, block, time, began)) is not None:
            family.histograms.append(point)

    def _own(self, own: Iterable[OwnFamily], time: float) -> Iterator[Metric]:
        """The sidecar's own metrics, which no block holds."""
        start = self._starts.of_own()
        for family in own:
            points = [
                _number(dict(sample.labels), start, time, sample.value)
                for sample in family.samples
                if sample.name.removesuffix("_total") == family.name.removesuffix("_total")
            ]
            unit = next((unit for end, unit in (("seconds", "s"), ("bytes", "By")) if end in family.name), "")
            name = dotted(family.samples[0].name)
            counts = family.type == "counter"
            data = Sum(points, _CUMULATIVE, is_monotonic=True) if counts else Gauge(points)
            yield Metric(name, family.documentation, unit, data)


def _number(
    attributes: Attributes | dict[str, str], start: float, time: float, value: float
) -> NumberDataPoint:
    return NumberDataPoint(dict(attributes), _nanos(min(start, time)), _nanos(time), value)


def _histogram(row: _Row, block: Block, time: float, start: float) -> HistogramDataPoint | None:
    """None when a bucket is absent or smaller than the one below it: half a histogram would be a wrong one."""
    series = row.series
    cumulative = block.values[series.start : series.count_index + 1]
    counts, below = [], 0
    for value in cumulative:
        if is_absent(value) or value < below:
            return None
        counts.append(int(value) - below)
        below = int(value)
    total = block.values[series.sum_index]
    return HistogramDataPoint(
        attributes=dict(row.attributes),
        start_time_unix_nano=_nanos(min(start, time)),
        time_unix_nano=_nanos(time),
        count=below,
        sum=None if is_absent(total) else total,  # type: ignore[arg-type]
        bucket_counts=counts,
        explicit_bounds=series.bounds[:-1],
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )


def _nanos(seconds: float) -> int:
    return int(seconds * 1e6) * 1000
