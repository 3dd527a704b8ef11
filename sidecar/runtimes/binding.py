"""A compiled mapping: from a page's raw numbers to the schema's, by copying."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, nan
from operator import itemgetter

from sidecar.schema import Kind, Status
from sidecar.snapshot import Layout, Provenance

#: What some runtimes write into a gauge that has no value now.
SENTINEL = -1.0

#: A value that data can't describe: called with the block's values so far and the raw ones.
Computed = Callable[[list[float], Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class Sum:
    """Output `place` is the sum over raw slots, less the sum over `minus`, times a factor."""

    place: int
    slots: tuple[int, ...]
    factor: float
    minus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """Output `place` is the max, min or weighted mean over raw slots, times a factor."""

    place: int
    slots: tuple[int, ...]
    factor: float
    how: Callable[[Sequence[float]], float]


#: Takes the raw slots of all outputs at once.
Pick = Callable[[Sequence[float]], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Outputs that are plain sums over equally many raw slots: the first slots of all, the second ones, …"""

    places: tuple[int, ...]
    picks: tuple[Pick, ...]


def pick(slots: Sequence[int]) -> Pick:
    """`itemgetter` that always gives a tuple."""
    if len(slots) > 1:
        return itemgetter(*slots)
    return lambda raw: tuple([raw[slot] for slot in slots])


def columns(sums: Sequence[Sum]) -> tuple[tuple[Columns, ...], tuple[Sum, ...]]:
    """Plain sums as columns, and the sums that are more than that."""
    plain: dict[int, list[Sum]] = {}
    others = []
    for one in sums:
        if one.factor == 1.0 and not one.minus and one.slots:
            plain.setdefault(len(one.slots), []).append(one)
        else:
            others.append(one)
    grouped = tuple(
        Columns(
            tuple(one.place for one in group),
            tuple(pick([one.slots[rank] for one in group]) for rank in range(width)),
        )
        for width, group in plain.items()
    )
    return grouped, tuple(others)


@dataclass(frozen=True, slots=True)
class Binding:
    """How the values of one shape of page become the values of one layout."""

    layout: Layout
    provenance: tuple[Provenance, ...]
    unmapped: tuple[str, ...]
    #: for each output the raw slot that it is a plain copy of (any slot where it is not).
    copies: Pick
    columns: tuple[Columns, ...]
    sums: tuple[Sum, ...]
    folds: tuple[Fold, ...]
    constants: tuple[tuple[int, float], ...]
    assumed: tuple[int, ...]  # outputs that are 0 while nothing has ever finished
    progress: tuple[int, ...]  # raw slots of counters that must all be 0 for that
    computed: tuple[tuple[int, Computed], ...]
    histograms: tuple[tuple[int, int], ...]  # ranges of cumulative buckets
    amounts: tuple[int, ...]  # counters and gauges: finite and never negative
    ranges: tuple[tuple[int, float, float], ...]
    falling: tuple[int, ...]  # outputs whose fall means a restart
    records: Mapping[int, str]  # outputs that a rule reads: the signal of `provenance` that tells of it
    counts: frozenset[int]  # of these: what has no business to be NaN, a gauge has
    signed: frozenset[int]  # sums of histograms: the only outputs that may be negative

    def evaluate(
        self,
        raw: Sequence[float],
        *,
        healthy: bool = True,
        unusable: list[int] | None = None,
        below_zero: bool = True,
    ) -> tuple[float, ...]:
        """The block's values; NaN where absent. Into `unusable` come the outputs that the page has with a number
        that can't be: of a histogram its first, or that of its sum. `below_zero` False says that no raw number
        is negative."""
        refused: list[int] = [] if unusable is None else unusable
        out: list[float] = list(self.copies(raw)) if raw else [nan] * self.layout.size
        for group in self.columns:
            ranks = [take(raw) for take in group.picks]
            for place, ranked in zip(group.places, zip(*ranks, strict=True), strict=True):
                out[place] = sum(ranked)
        for one in self.sums:
            total = sum([raw[slot] for slot in one.slots])
            if one.minus:
                total -= sum([raw[slot] for slot in one.minus])
            out[one.place] = total * one.factor
        for fold in self.folds:
            out[fold.place] = fold.how([raw[slot] for slot in fold.slots]) * fold.factor
        if below_zero:
            self._refuse_parts(raw, out, refused)
        for place, value in self.constants:
            out[place] = value
        if self.assumed:
            zero = 0.0 if healthy and not any(raw[slot] for slot in self.progress) else nan
            for place in self.assumed:
                out[place] = zero
        for start, stop in self.histograms:
            buckets = out[start:stop]
            if not (buckets[0] >= 0 and sum(buckets) < inf and buckets == sorted(buckets)):
                out[start : stop + 1] = [nan] * (stop + 1 - start)  # not cumulative: no histogram
                refused.append(start)
            elif not -inf < out[stop] < inf:
                out[stop] = nan
                refused.append(stop)
        for place, low, high in self.ranges:
            if not low <= out[place] <= high:
                self._refuse(place, out, refused)
        for place, compute in self.computed:
            out[place] = compute(out, raw)
        for place in self.amounts:
            if not 0 <= out[place] < inf:
                self._refuse(place, out, refused)
        return tuple(out)

    def _refuse_parts(self, raw: Sequence[float], out: list[float], refused: list[int]) -> None:
        """A part below 0 hides in a sum, and a maximum. What a histogram observed may have one."""
        outputs: list[Sum | Fold] = [*self.sums, *self.folds]
        parts = [(one.place, [raw[slot] for slot in one.slots]) for one in outputs]
        for group in self.columns:
            ranks = [take(raw) for take in group.picks]
            parts += zip(group.places, map(list, zip(*ranks, strict=True)), strict=True)
        for place, numbers in parts:
            below = [number for number in numbers if number < 0]
            if below and place not in self.signed:
                out[place] = nan
                if place not in self.counts and any(number != SENTINEL for number in below):
                    refused.append(place)

    def _refuse(self, place: int, out: list[float], refused: list[int]) -> None:
        value, out[place] = out[place], nan
        if place in self.counts or (value == value and value != SENTINEL):
            refused.append(place)

    def told(self, unusable: Iterable[int]) -> tuple[Provenance, ...]:
        """`provenance` while these outputs can't be used."""
        lost = Counter(self.records[place] for place in unusable if place in self.records)
        if not lost:
            return self.provenance
        all_of = Counter(self.records[one.start] for one in self.layout.series if one.start in self.records)
        kinds = {name: series[0].signal.kind for name, series in self.layout.by_signal.items()}
        return tuple(
            replace(
                one,
                status=Status.INVALID,
                note=f"{lost[one.signal]} of {all_of[one.signal]} series can't be used: "
                + _IMPOSSIBLE[kinds[one.signal.partition(":")[0]]],
            )
            if one.signal in lost
            else one
            for one in self.provenance
        )


_IMPOSSIBLE = {
    Kind.GAUGE: "out of range, infinite or negative",
    Kind.COUNTER: "NaN, infinite or negative",
    Kind.HISTOGRAM: "buckets that aren't cumulative, NaN, infinite or negative",
}


def total(raw: Sequence[float], slots: Sequence[int]) -> float:
    """The sum of counts; NaN when one of them is below 0, which no count is."""
    parts = [raw[slot] for slot in slots]
    return sum(parts) if not parts or min(parts) >= 0 else nan


def largest(values: Sequence[float]) -> float:
    """NaN when any is: a rank that can't tell leaves the maximum unknown."""
    return max(values) if all(value == value for value in values) else nan


def smallest(values: Sequence[float]) -> float:
    return min(values) if all(value == value for value in values) else nan


def weighted_mean(weights: Sequence[float]) -> Callable[[Sequence[float]], float]:
    total = sum(weights)

    def mean(values: Sequence[float]) -> float:
        return sum(value * weight for value, weight in zip(values, weights, strict=True)) / total

    return mean
