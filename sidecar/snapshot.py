"""The frozen value that the line carries from targets to outputs: data, health, provenance.

Everything is columnar. A `Layout` names the series once and is shared by all snapshots between two changes
of the runtime's page; a `Block` is a layout and its numbers of one moment. Consumers compile what they
need per layout (`block.layout is self.layout`) and copy values afterwards. NaN in a block means absent: it
never leaves the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, nan

from sidecar.schema import SIGNALS, Kind, Method, Scope, Signal, Status

Labels = tuple[tuple[str, str], ...]

ABSENT = nan


def is_absent(value: float) -> bool:
    """NaN is the only value that differs from itself."""
    return value != value


@dataclass(frozen=True, slots=True)
class Series:
    """One output series; a histogram is one series. `labels` are complete and in page order: `target`, `runtime`,
    `model_name` where they apply, then the signal's own.

    `start` is the index of its first number. A gauge or counter has one. A histogram has one cumulative count
    for each of `bounds` (ascending, the last is +Inf), then its sum: `len(bounds) + 1` numbers. Its count is
    the +Inf bucket.
    """

    signal: Signal
    labels: Labels
    start: int
    bounds: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        return len(self.bounds) + 1 if self.signal.kind is Kind.HISTOGRAM else 1

    @property
    def count_index(self) -> int:
        """Histogram: index of the +Inf bucket, which is the number of observations."""
        return self.start + len(self.bounds) - 1

    @property
    def sum_index(self) -> int:
        """Histogram: index of the sum of the observations."""
        return self.start + len(self.bounds)

    def label(self, name: str) -> str:
        """The value of a label, empty when the series doesn't have it."""
        return next((value for key, value in self.labels if key == name), "")


class Layout:
    """The series of a block, in page order. Compared by identity: a new layout means new series."""

    __slots__ = ("by_signal", "series", "size")

    def __init__(self, series: Iterable[Series]) -> None:
        self.series: tuple[Series, ...] = tuple(series)
        self.size: int = sum(one.width for one in self.series)
        self.by_signal: dict[str, tuple[Series, ...]] = {}
        for one in self.series:
            name = one.signal.name
            self.by_signal[name] = (*self.by_signal.get(name, ()), one)

    def find(self, signal: str, **labels: str) -> Iterator[Series]:
        """Series of a signal whose labels contain `labels`."""
        for one in self.by_signal.get(signal, ()):
            if all(one.label(key) == value for key, value in labels.items()):
                yield one


class LayoutBuilder:
    """Collects series and hands out their places; used when a layout changes, never on the hot path."""

    def __init__(self) -> None:
        self._series: list[Series] = []
        self._size = 0

    def add(
        self, signal: str | Signal, labels: Labels | dict[str, str] = (), bounds: Sequence[float] = ()
    ) -> int:
        """Add a series and return the index of its first number. Unknown signals raise KeyError.

        A histogram's `bounds` may leave out +Inf: it is appended.
        """
        known = SIGNALS[signal] if isinstance(signal, str) else signal
        pairs = tuple(labels.items()) if isinstance(labels, dict) else tuple(labels)
        edges = tuple(bounds)
        if known.kind is Kind.HISTOGRAM and (not edges or edges[-1] != inf):
            edges = (*edges, inf)
        series = Series(known, pairs, self._size, edges)
        self._series.append(series)
        self._size += series.width
        return series.start

    def build(self) -> Layout:
        return Layout(self._series)


EMPTY_LAYOUT = Layout(())


@dataclass(frozen=True, slots=True)
class Block:
    """Series and their numbers at one moment; `values[i]` is NaN where the value is absent."""

    layout: Layout
    values: Sequence[float]

    def get(self, signal: str, **labels: str) -> float:
        """The first matching gauge or counter, NaN when absent. For tests and slow paths."""
        for one in self.layout.find(signal, **labels):
            return self.values[one.start]
        return ABSENT


EMPTY_BLOCK = Block(EMPTY_LAYOUT, ())


def block_of(rows: Iterable[tuple[str | Signal, dict[str, str] | Labels, float]]) -> Block:
    """A block from gauges and counters, layout and all. For slow paths: outputs recompile for each call."""
    builder = LayoutBuilder()
    values = []
    for signal, labels, value in rows:
        builder.add(signal, labels)
        values.append(value)
    return Block(builder.build(), tuple(values))


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where one signal of one target comes from, or why it is not there."""

    signal: str
    status: Status
    method: Method = Method.NATIVE
    source: str = ""
    scope: Scope = Scope.ENGINE
    note: str = ""  # for doctor: which flag, version or cause; never a label


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One target at one moment.

    `time` is Unix time of the scrape, `mono` the monotonic clock that windows are measured on. `epoch` grows
    by one when the runtime restarted: a counter of another epoch starts from 0. `data` is empty while the
    target is down or its data is older than its staleness. `extra` holds the blocks that later rooms add
    (derived signals, SLOs). `reread` says that the layout is new, but the page isn't: something was learnt of
    the runtime since, so a series that shows for the first time didn't begin at 0 just now. `rebased` says that
    the counts go on from none that were shown before, and not from 0 either: they are the base of what comes.
    """

    target: str
    runtime: str
    time: float
    mono: float
    epoch: int
    up: bool
    data: Block
    life: Block
    provenance: tuple[Provenance, ...] = ()
    extra: tuple[Block, ...] = ()
    reasons: dict[str, str] = field(default_factory=dict)
    reread: bool = False
    rebased: bool = False

    def with_extra(self, block: Block, provenance: tuple[Provenance, ...] = ()) -> Snapshot:
        """This snapshot with one more block and where its values come from.

        Written out, since `replace` costs several times as much.
        """
        return Snapshot(
            self.target,
            self.runtime,
            self.time,
            self.mono,
            self.epoch,
            self.up,
            self.data,
            self.life,
            self.provenance + provenance if provenance else self.provenance,
            (*self.extra, block),
            self.reasons,
            self.reread,
            self.rebased,
        )

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.data, self.life, *self.extra)


@dataclass(frozen=True, slots=True)
class Publication:
    """Everything that outputs may read: swapped as one reference, never changed."""

    time: float
    snapshots: tuple[Snapshot, ...] = ()
    shared: tuple[Block, ...] = ()  # blocks of no single target: GPUs, the fleet
    serial: int = 0
