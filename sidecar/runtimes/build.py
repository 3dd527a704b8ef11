"""Collects outputs while a page is bound: what becomes a `Binding`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan

from sidecar.exposition import Sample, Shape
from sidecar.runtimes.binding import (
    Binding,
    Computed,
    Fold,
    Sum,
    columns,
    largest,
    pick,
    smallest,
    weighted_mean,
)
from sidecar.runtimes.mapping import Mapping
from sidecar.schema import RUNTIME, SIGNALS, Agg, Kind, Method, Scope, Status
from sidecar.snapshot import Labels, Layout, LayoutBuilder, Provenance

DEFAULT_MAX_SERIES = 2000


class Build:
    """Outputs of one shape of page, in the making. Adapters add to it what the mapping's data can't say."""

    def __init__(
        self, mapping: Mapping, shape: Shape, base: dict[str, str], *, max_series: int = DEFAULT_MAX_SERIES
    ) -> None:
        self.mapping = mapping
        self.shape = shape
        self.base = base  # labels of every series: target, runtime
        self.by_name: dict[str, list[tuple[int, Sample]]] = {}
        for slot, sample in enumerate(shape.samples):
            self.by_name.setdefault(mapping.canonical(sample.name), []).append((slot, sample))
        self.models: tuple[str, ...] = tuple(dict.fromkeys(filter(None, map(self.model_of, shape.samples))))
        self.dropped = 0
        self._max = max_series
        self._rows = 0
        self._layout = LayoutBuilder()
        self._order: list[int] = []
        self._sums: list[Sum] = []
        self._folds: list[Fold] = []
        self._constants: list[tuple[int, float]] = []
        self._assumed: list[int] = []
        self._computed: list[tuple[int, Computed]] = []
        self._ranges: list[tuple[int, float, float]] = []
        self._estimates: set[int] = set()
        self._cut: list[tuple[str, Labels]] = []  # series over the cap
        self._provenance: dict[str, Provenance] = {}

    def model_of(self, sample: Sample) -> str:
        """The model that a sample belongs to, empty when no label tells."""
        for label in self.mapping.model_labels:
            if value := sample.label(label):
                return value
        return ""

    @property
    def only_model(self) -> str:
        """The model of a page that names just one; series without the label belong to it."""
        return self.models[0] if len(self.models) == 1 else ""

    def labels(self, model: str, own: dict[str, str]) -> Labels:
        model = model or self.only_model
        named = {"model_name": model} if model else {}
        return tuple((self.base | named | own).items())

    def note(self, record: Provenance) -> None:
        """State where a signal comes from; the first statement with status ok stays."""
        known = self._provenance.get(record.signal)
        if known is None or (known.status is not Status.OK and record.status is Status.OK):
            self._provenance[record.signal] = record

    def remark(self, signal: str, note: str) -> None:
        """Add to what is known of a signal that is there: how it reads on this page."""
        known = self._provenance.get(signal)
        if known is not None and known.status is Status.OK:
            self._provenance[signal] = replace(known, note="; ".join(filter(None, (known.note, note))))

    def took(self, signal: str, place: int = 0) -> None:
        """State that a signal was computed from a source of the mapping's `computed`."""
        origin = self.mapping.computed[signal][place]
        self.note(Provenance(signal, Status.OK, origin.method, origin.source, origin.scope, origin.note))

    def says(self, signal: str) -> Provenance | None:
        return self._provenance.get(signal)

    def _add(self, signal: str, labels: Labels, bounds: Sequence[float] = ()) -> int | None:
        """A place for a series, None when the cap is reached."""
        rows = len(bounds) + 3 if SIGNALS[signal].kind is Kind.HISTOGRAM else 1
        if self._rows + rows > self._max:
            self.dropped += rows
            self._cut.append((signal, labels))
            return None
        self._rows += rows
        start = self._layout.add(signal, labels, bounds)
        width = len(bounds) + 1 if SIGNALS[signal].kind is Kind.HISTOGRAM else 1
        self._order.extend([0] * width)
        return start

    def scalar(
        self,
        signal: str,
        labels: Labels,
        slots: Sequence[int],
        *,
        factor: float = 1.0,
        weights: Sequence[float] = (),
        valid: tuple[float, float] | None = None,
        minus: Sequence[int] = (),
    ) -> None:
        """A gauge or counter from raw slots, aggregated as the schema says; `minus` are taken off a sum."""
        place = self._add(signal, labels)
        if place is None:
            return
        agg = SIGNALS[signal].agg
        if len(slots) == 1 and factor == 1.0 and not minus:
            self._order[place] = slots[0]
        elif agg in (Agg.SUM, Agg.NONE):
            self._sums.append(Sum(place, tuple(slots), factor, tuple(minus)))
        else:
            how: dict[Agg, Callable[[Sequence[float]], float]] = {Agg.MAX: largest, Agg.MIN: smallest}
            mean = weighted_mean(weights or [1.0] * len(slots))
            self._folds.append(Fold(place, tuple(slots), factor, how.get(agg, mean)))
        if valid is not None:
            self._ranges.append((place, *valid))

    def histogram(
        self,
        signal: str,
        labels: Labels,
        buckets: dict[float, list[int]],
        sums: Sequence[int],
        factor: float = 1.0,
        minus: Sequence[int] = (),
    ) -> None:
        """A histogram from raw slots: for each bound (ascending, +Inf last) the slots that add up.

        `minus` are slots that are taken off the count.
        """
        bounds = sorted(buckets)
        start = self._add(signal, labels, [round(bound * factor, 12) for bound in bounds])
        if start is None:
            return
        for place, bound in enumerate(bounds, start):
            self._copy_or_sum(place, buckets[bound], 1.0, minus if bound == inf else ())
        if sums:
            self._copy_or_sum(start + len(bounds), sums, factor)
        else:
            self._constants.append((start + len(bounds), nan))

    def _copy_or_sum(
        self, place: int, slots: Sequence[int], factor: float, minus: Sequence[int] = ()
    ) -> None:
        if len(slots) == 1 and factor == 1.0 and not minus:
            self._order[place] = slots[0]
        else:
            self._sums.append(Sum(place, tuple(slots), factor, tuple(minus)))

    def constant(self, signal: str, labels: Labels, value: float) -> None:
        """A value that the page's labels hold: it can only change with the page's shape."""
        place = self._add(signal, labels)
        if place is not None:
            self._constants.append((place, value))

    def assume_zero(self, signal: str, labels: Labels) -> None:
        place = self._add(signal, labels)
        if place is not None:
            self._assumed.append(place)

    def computed(self, signal: str, labels: Labels, compute: Computed) -> None:
        """A value that code derives from the others; its fall never counts as a restart."""
        place = self._add(signal, labels)
        if place is not None:
            self._computed.append((place, compute))
            self._estimates.add(place)

    def slots(self, name: str, **where: str) -> list[int]:
        """Raw slots of the samples of a canonical name whose labels contain `where`."""
        return [
            slot
            for slot, sample in self.by_name.get(name, ())
            if all(sample.label(key) == value for key, value in where.items())
        ]

    def finish(self, progress: Sequence[str]) -> Binding:
        """The binding. `progress` names the samples that must all be 0 for an assumed 0."""
        layout = self._layout.build()
        grouped, sums = columns(self._sums)
        amounts, falling = [], []
        histograms = []
        for one in layout.series:
            if one.signal.kind is Kind.HISTOGRAM:
                histograms.append((one.start, one.sum_index))
                falling.append(one.count_index)
                continue
            amounts.append(one.start)
            if one.signal.kind is Kind.COUNTER and one.start not in self._estimates:
                falling.append(one.start)
        provenance = self._complete_provenance(layout)
        records = self._records(layout)
        return Binding(
            layout=layout,
            provenance=provenance,
            unmapped=self._unmapped(),
            copies=pick(self._order),
            columns=grouped,
            sums=sums,
            folds=tuple(self._folds),
            constants=tuple(self._constants),
            assumed=tuple(self._assumed),
            progress=tuple(slot for name in progress for slot in self.slots(name)),
            computed=tuple(self._computed),
            histograms=tuple(histograms),
            amounts=tuple(amounts),
            ranges=tuple(self._ranges),
            falling=tuple(falling),
            records=records,
            counts=frozenset(records).intersection(falling),
            signed=frozenset(stop for _, stop in histograms),
        )

    def _complete_provenance(self, layout: Layout) -> tuple[Provenance, ...]:
        """One record for each signal of the schema: what no rule spoke of is not exposed."""
        said = {name.partition(":")[0] for name in self._provenance}
        for signal in RUNTIME:
            if signal.name not in said:
                self.note(self.missing(signal.name))
        cut = Counter(self._record_of(signal, labels) for signal, labels in self._cut)
        for name, series in cut.items():
            note = f"{series} series are over max_series ({self._max})"
            known = self._provenance.get(name) or self.missing(name)
            self._provenance[name] = replace(known, status=Status.DROPPED, note=note)
        return tuple(self._provenance.values())

    def _records(self, layout: Layout) -> dict[int, str]:
        """For the places that a rule reads from the page, the record that tells of them."""
        ours = {place for place, _ in self._computed} | set(self._assumed)
        ours |= {place for place, value in self._constants if value != value}  # a histogram without a sum
        records = {}
        for one in layout.series:
            name = self._record_of(one.signal.name, one.labels)
            for place in {one.start, one.sum_index if one.bounds else one.start} - ours:
                records[place] = name
        return records

    def _record_of(self, signal: str, labels: Labels) -> str:
        """The record that tells of a series: `requests_total:error` before `requests_total`."""
        own = {value for _, value in labels}
        found = [
            name
            for name in self._provenance
            if name.partition(":")[0] == signal and own.issuperset(name.split(":")[1:])
        ]
        return max(found, key=len, default=signal)

    def missing(self, signal: str) -> Provenance:
        why = self.mapping.absent.get(signal) or self.mapping.absent.get(signal.partition(":")[0])
        if why is None:
            return Provenance(signal, Status.NOT_EXPOSED, Method.NATIVE, "", Scope.ENGINE)
        return Provenance(signal, why.status, Method.NATIVE, "", Scope.ENGINE, why.note)

    def _unmapped(self) -> tuple[str, ...]:
        mapped = {sample.family for sample in self.shape.samples}
        names = self.mapping.names
        return tuple(
            family
            for family in self.shape.families
            if family not in mapped
            and not self.mapping.is_quiet(family)
            and not any(self.mapping.canonical(family) + suffix in names for suffix in ("", "_total", "_sum"))
        )
